"""Contexts and tapes that keep gradients which come to chosen operations
(`tensorflow.python.ipu.eager.backprop`)."""

import tensorflow as tf

from tremula.tf.ipu.ops import grad_util_ops_grad


def num_gradient_collection_tapes():
    """How many contexts and tapes collect gradients now."""
    return grad_util_ops_grad.count()


class GradientCaptureContext:
    """Keeps the gradients of grad_util_ops.capture_upstream_gradients() that are computed from its
    beginning until `captured_gradients` is read. Contexts may be nested."""

    def __init__(self):
        self._frame = grad_util_ops_grad.Frame()
        self._captured = None

    def __enter__(self):
        self._frame.open()
        return self

    def __exit__(self, *failure):
        if failure and failure[0] is not None:
            self._frame.close()

    def __del__(self):
        frame = getattr(self, "_frame", None)
        if frame is not None:
            frame.close()

    def _take(self):
        if self._frame.close():
            self._captured = self._frame.gradients
            self._frame = grad_util_ops_grad.Frame()

    @property
    def captured_gradients(self):
        """{tag: list of gradients}, or None before the context has begun. Reading it ends the
        capturing."""
        self._take()
        return self._captured

    @captured_gradients.setter
    def captured_gradients(self, value):
        raise ValueError("captured_gradients is read only.")


class GradientCaptureTape(tf.GradientTape, GradientCaptureContext):
    """A tf.GradientTape whose gradient() captures."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        tf.GradientTape.__init__(self, persistent, watch_accessed_variables)
        GradientCaptureContext.__init__(self)

    def __enter__(self):
        GradientCaptureContext.__enter__(self)
        return tf.GradientTape.__enter__(self)

    def __exit__(self, *failure):
        GradientCaptureContext.__exit__(self, *failure)
        tf.GradientTape.__exit__(self, *failure)

    def gradient(self, target, sources, output_gradients=None,
                 unconnected_gradients=tf.UnconnectedGradients.NONE):
        """As tf.GradientTape.gradient()."""
        found = tf.GradientTape.gradient(self, target, sources, output_gradients,
                                         unconnected_gradients)
        self._take()
        return found
