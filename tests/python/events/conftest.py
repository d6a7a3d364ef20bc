"""Fixtures: those of end-to-end tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from end_to_end import *  # noqa: E402,F401,F403
