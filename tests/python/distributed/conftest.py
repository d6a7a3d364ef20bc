"""Tests of several processes: each worker is one, and the tests' own process has no IPUs."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
