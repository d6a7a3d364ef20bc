"""Capturing gradients (`tensorflow.python.ipu.ops.grad_util_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import grad_util_ops_grad


def capture_upstream_gradients(*args, tag=""):
    """Returns `args`, a tensor or a structure of tensors, as they are, and lets the context around
    it keep the gradients that come to them.

    The context is a GradientCaptureContext or a GradientCaptureTape of `ipu.eager.backprop`; its
    captured gradients have the gradients by `tag`. Raises RuntimeError outside of such a context.
    """
    if grad_util_ops_grad.count() == 0:
        raise RuntimeError(
            "tensorflow.python.ipu.ops.grad_util_ops.capture_upstream_gradients "
            "may only be used within the context of "
            "tensorflow.python.ipu.eager.GradientCaptureTape or "
            "GradientCaptureContext.")
    return captured(args[0] if len(args) == 1 else args, tag)


def captured(args, tag):
    """The same for layers, which are built wherever a model is: only their gradients must be taken
    in a context."""
    @tf.custom_gradient
    def hand_on(*tensors):
        def gradient(*gradients):
            grad_util_ops_grad.capture(tag, gradients)
            return gradients
        return tuple(tf.identity(one) for one in tensors), gradient

    tensors = [tf.convert_to_tensor(one) for one in tf.nest.flatten(args)]
    return tf.nest.pack_sequence_as(args, tf.nest.flatten(hand_on(*tensors)))
