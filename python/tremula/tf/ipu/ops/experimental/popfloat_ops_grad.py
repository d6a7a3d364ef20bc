"""Gradients of casts to formats of few bits.

They go straight through, as popfloat_cast_to_gfloat builds them: rounding has no slope of its own.
"""

import tensorflow.compat.v1 as tf


def cast_grad(d, dtype):
    """The gradient for a number of the type `dtype` that was cast."""
    return tf.cast(d, dtype)
