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
    """Eager, TensorFlow 2's shapes and equality, the CPU."""
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework import tensor as tensors, tensor_shape
    shapes = tensor_shape._TENSORSHAPE_V2_OVERRIDE
    equality = tensors.Tensor._USE_EQUALITY
    tf.compat.v1.enable_v2_tensorshape()
    tf.compat.v1.enable_tensor_equality()
    with context.eager_mode(), tf.device("/CPU:0"):
        yield
    tensor_shape._TENSORSHAPE_V2_OVERRIDE = shapes
    tensors.Tensor._USE_EQUALITY = equality
