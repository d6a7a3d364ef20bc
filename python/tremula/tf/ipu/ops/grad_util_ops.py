"""Capturing gradients (`tensorflow.python.ipu.ops.grad_util_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import grad_util_ops_grad


def capture_upstream_gradients(args, tag=""):
    """`args`, a tensor or a structure of tensors, as they are; the gradients that come to them go
    to the GradientCaptureContext or GradientCaptureTape (ipu.eager.backprop) around, under `tag`.

    Raises RuntimeError outside of these.
    """
    captured = grad_util_ops_grad.current()
    if captured is None:
        raise RuntimeError(
            "tensorflow.python.ipu.ops.grad_util_ops.capture_upstream_gradients "
            "may only be used within the context of "
            "tensorflow.python.ipu.eager.GradientCaptureTape or "
            "GradientCaptureContext.")

    @tf.custom_gradient
    def hand_on(x):
        def gradient(d):
            captured.add(tag, d)
            return d
        return tf.identity(x), gradient

    return tf.nest.map_structure(lambda one: hand_on(tf.convert_to_tensor(one)), args)
