"""Fixtures: those of end-to-end tests."""


import pytest

from end_to_end import *  # noqa: F401,F403


@pytest.fixture(autouse=True)
def one_ipu_afterwards(devices):  # noqa: F405
    """For the tests of other folders: `devices` configures one IPU again when a test is over."""
    del devices
