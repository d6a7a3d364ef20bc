"""Where gradients are captured: a stack of frames, one for each context and tape that is open."""

import contextlib
import threading

_local = threading.local()


class Frame:
    """What one context or tape has captured. `gradients`: {tag: list of gradients}."""

    def __init__(self):
        self.gradients = {}

    def open(self):
        """Puts the frame on the stack of this thread."""
        _stack().append(self)

    def close(self):
        """Takes the frame from the stack, if it is there. Returns whether it was."""
        stack = _stack()
        if not any(one is self for one in stack):
            return False
        stack[:] = [one for one in stack if one is not self]
        return True

    def add(self, tag, gradients):
        """Takes in the gradients of one operation. Raises ValueError for a tag that is there."""
        if tag in self.gradients:
            raise ValueError("Gradient exists in the captured grads frame.")
        self.gradients[tag] = list(gradients)


    @contextlib.contextmanager
    def opened(self):
        """A block in which the frame is open."""
        self.open()
        try:
            yield
        finally:
            self.close()


class _Nowhere(Frame):
    def add(self, tag, gradients):
        pass


def dropping():
    """A block in which captured gradients go nowhere."""
    return _Nowhere().opened()


def count():
    """How many frames are open in this thread."""
    return len(_stack())


def capture(tag, gradients):
    """Adds gradients to the innermost frame that is open. Raises RuntimeError if there is none."""
    if not _stack():
        raise RuntimeError(
            "Attempting to access grad frame in an empty stack. Take the gradients of captured "
            "operations inside a GradientCaptureContext or with a GradientCaptureTape of "
            "ipu.eager.backprop.")
    _stack()[-1].add(tag, gradients)


def _stack():
    if not hasattr(_local, "frames"):
        _local.frames = []
    return _local.frames
