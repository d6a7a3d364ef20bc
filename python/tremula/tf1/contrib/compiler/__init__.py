"""`tf.contrib.compiler`: XLA's functions, which TensorFlow has elsewhere today."""

from tremula.tf.inner.contrib import jit, xla

__all__ = ["jit", "xla"]
