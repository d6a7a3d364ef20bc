"""What a tf.function adds to a program while TensorFlow traces the function.

A Recording takes the place of a tracing.Trace for the duration of the trace. TensorFlow owns the
graph and may use it for several programs, so a Recording does not number queues: programs.py does
that for each program.
"""

import contextlib
import weakref

from tremula.tf.inner import handles
from tremula.tf.runtime.tracing import tracing

_ATTRIBUTE = "_tremula_recording"


class Recording:
    """Stands for the program that a function is traced for; see tracing.Trace for the attributes.

    owner  the tf.function object that is traced, by a weak reference
    """

    is_function = True

    def __init__(self, graph, device, owner):
        self.graph, self.device, self.owner = graph, device, weakref.ref(owner)
        self.state = []
        self._infeed = None
        self.refusals, self.unchecked = [], []
        self.tables, self.updated, self.accumulating = {}, {}, {}

    @property
    def infeed(self):
        """The infeed queue that the function reads, or None. A function does not keep a queue."""
        return self._infeed and self._infeed()

    @infeed.setter
    def infeed(self, queue):
        self._infeed = weakref.ref(queue)

    def feed(self, queue_id):
        """What an operation calls a queue until a program numbers its queues: the id."""
        return queue_id

    def with_ids(self, config):
        """`config`, which has the ids already."""
        return config

    def new_state(self, dtype, shape):
        """The handle of a value that lives as long as a run: something that the graph captures, so
        that all functions inside can have it."""
        handle = self.graph.capture(handles.unborn_variable(dtype, shape))
        self.state.append(handle)
        return handle


@contextlib.contextmanager
def recorded(graph, device, owner):
    """Records what is traced into `graph` meanwhile, unless that is part of a larger program."""
    if tracing.current() is not None:
        yield
        return
    recording = Recording(graph, device, owner)
    setattr(graph, _ATTRIBUTE, recording)
    with tracing.entered(recording):
        yield


def of(graph):
    """The Recording of a function's graph, or None."""
    return getattr(graph, _ATTRIBUTE, None)
