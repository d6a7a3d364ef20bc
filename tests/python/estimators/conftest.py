"""Fixtures: those of end-to-end tests."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from end_to_end import *  # noqa: E402,F401,F403


@pytest.fixture(autouse=True)
def one_ipu_afterwards(devices):  # noqa: F405
    """For the tests of other folders: `devices` configures one IPU again when a test is over."""
    del devices
