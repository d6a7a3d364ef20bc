"""Fixtures: those of end-to-end tests, and devices of several IPUs."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from end_to_end import *  # noqa: E402,F401,F403
from end_to_end import ipu  # noqa: E402


def _configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture
def devices(configured):
    """devices(n) configures /device:IPU:0 with n IPUs; afterwards there is one again."""
    del configured
    yield _configure
    _configure(1)
