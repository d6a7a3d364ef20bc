"""What outfeed queues give where no program runs: zeros, as many as the programs would enqueue."""

import functools


class Outfeeds:
    """The elements of each outfeed queue, by the queue's id. last: the structure of tensors that
    was enqueued last."""

    def __init__(self):
        self._modules, self._pending = {}, {}
        self.last = None

    def note(self, trace, module):
        """A program that may be run, and the feeds that it has."""
        self._modules.update(dict.fromkeys(trace.feeds, module))

    def run(self, function):
        """A call of a function, which may launch programs with feeds."""
        for one in function.graph.get_operations():
            for feed in one.node_def.attr["feeds"].list.s:
                feed = feed.decode()
                self._pending[feed] = self._pending.get(feed, 0) + self.enqueued(feed)

    def enqueued(self, feed):
        """How many elements a run of the program with this outfeed enqueues; 1 if that is
        unknown."""
        module = self._modules.get(feed)
        return 1 if module is None else _enqueued(module)

    def enqueue(self, original):
        """IPUOutfeedQueue.enqueue, noted."""
        @functools.wraps(original)
        def enqueue(queue, tensors):
            self.last = tensors
            return original(queue, tensors)

        return enqueue

    def dequeue(self, original):
        """IPUOutfeedQueue.dequeue, in eager mode with as many zeros as wait in the queue."""
        @functools.wraps(original)
        def dequeue(queue, *arguments, **keywords):
            import tensorflow as tf
            from tremula.tf.runtime.tracing import replication
            waiting = self._pending.pop(queue._id, 0)
            if not tf.executing_eagerly() or queue._structure is None or not waiting:
                return original(queue, *arguments, **keywords)
            replicas = replication.factor(queue._place) or 1
            lead = [waiting] if queue._mode is type(queue._mode).ALL else []
            return tf.nest.map_structure(
                tf.convert_to_tensor, queue.zeros(lead + [replicas] * (replicas > 1)))

        return dequeue


@functools.cache
def _enqueued(module):
    from tremula import core, planning
    try:
        return planning.plan(core.compile(core.Module.read(module), target="mk2")).enqueued or 1
    except core.TremulaError:
        return 1
