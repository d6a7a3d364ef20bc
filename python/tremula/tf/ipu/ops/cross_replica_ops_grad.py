"""Gradients of sums and means over replicas."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _collectives


def differentiable(x, op, size, name):
    """An all-reduce whose gradient is the same all-reduce of the gradient: one replica's x is a
    part of the results of all replicas in its group, so its gradient is the sum of theirs."""
    @tf.custom_gradient
    def reduce(value):
        def gradient(upstream):
            return _collectives.all_reduce(upstream, op, size, f"{name}Grad")
        return _collectives.all_reduce(value, op, size, name), gradient
    return reduce(tf.convert_to_tensor(x))
