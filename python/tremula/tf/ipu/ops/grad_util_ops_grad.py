"""Where gradients are captured: a stack of collections of the contexts and tapes that are open."""

import threading

_local = threading.local()


class Captured:
    """A context manager that collects gradients while it is open. `gradients`: {tag: gradient, or
    list of gradients if the tag has several}."""

    def __init__(self):
        self.gradients = {}

    def __enter__(self):
        if not hasattr(_local, "open"):
            _local.open = []
        _local.open.append(self)
        return self

    def __exit__(self, *failure):
        _local.open.remove(self)

    def add(self, tag, gradient):
        """Takes in a gradient."""
        if tag not in self.gradients:
            self.gradients[tag] = gradient
        elif isinstance(self.gradients[tag], list):
            self.gradients[tag].append(gradient)
        else:
            self.gradients[tag] = [self.gradients[tag], gradient]


def current():
    """The innermost Captured that is open in this thread, or None."""
    opened = getattr(_local, "open", None)
    return opened[-1] if opened else None
