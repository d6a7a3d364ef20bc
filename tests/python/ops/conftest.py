"""Differential tests of the ops: our kernels, our reference kernels, stock XLA, TensorFlow.

The library comes from TREMULA_LIBRARY_DIR, an installed package, or the release build. Other test
folders run TensorFlow 1 programs in the same process: here every test runs in eager mode, with
TensorFlow 2's tensors, on the CPU.
"""

import os
import pathlib
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"
if str(PYTHON) not in sys.path:
    sys.path.insert(0, str(PYTHON))


@pytest.fixture(autouse=True)
def tensorflow_2():
    """Every test in eager mode."""
    import eager
    with eager.tensorflow_2():
        yield
