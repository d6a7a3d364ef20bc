"""`tf.contrib.compiler`: XLA's functions, which TensorFlow has elsewhere today."""

from tensorflow.python.compiler.xla import jit, xla

__all__ = ["jit", "xla"]
