"""A mapping that keeps a limited number of values: those that were used last."""

import collections
import threading


class Recent:
    """Keeps at most `most` values. Threads may share one; a value is not to be None."""

    def __init__(self, most):
        self._most = most
        self._values = collections.OrderedDict()  # what was used last is at the end
        self._lock = threading.Lock()

    def get(self, key):
        """The value of a key, or None. The key counts as used now."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key, value):
        """Keeps a value. If there are too many, the one that was not used for longest goes."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)
