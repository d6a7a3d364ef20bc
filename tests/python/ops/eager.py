"""TensorFlow 2 for a test, in a process where TensorFlow 1 programs run, too."""

import contextlib


@contextlib.contextmanager
def tensorflow_2():
    """Eager, TensorFlow 2's shapes and equality, the CPU."""
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework import tensor as tensors, tensor_shape
    shapes = tensor_shape._TENSORSHAPE_V2_OVERRIDE
    equality = tensors.Tensor._USE_EQUALITY
    tf.compat.v1.enable_v2_tensorshape()
    tf.compat.v1.enable_tensor_equality()
    try:
        with context.eager_mode(), tf.device("/CPU:0"):
            yield
    finally:
        tensor_shape._TENSORSHAPE_V2_OVERRIDE = shapes
        tensors.Tensor._USE_EQUALITY = equality
