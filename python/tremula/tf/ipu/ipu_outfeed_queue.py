"""Getting results out of a loop on the IPU (`tensorflow.python.ipu.ipu_outfeed_queue`)."""

import collections.abc
import enum
import weakref

from tremula import custom_calls
from tremula.tf.inner import eager, errors, functions, graphs
from tremula.tf.runtime.base import checks, feed_arguments
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.tracing import replication, tracing

_NEW = ("outfeed_mode", "device_ordinal", "buffer_depth", "optimise_latency")
_OLD = ("feed_name", "outfeed_mode", "outfeed_all", "device_ordinal", "replication_factor",
        "io_batch_size")


class IPUOutfeedMode(enum.Enum):
    """What dequeue() gives.

    ALL: everything since the last dequeue(), one after the other. LAST: the last element.
    """
    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue(collections.abc.Iterable):
    """Takes tensors out of a compiled program while it runs.

    Enqueue them in the loop body, return the operation from it, and read them with dequeue().
    """

    def __init__(self, *args, **kwargs):
        """IPUOutfeedQueue(outfeed_mode=None, device_ordinal=None, buffer_depth=3,
        optimise_latency=False), and as before SDK 2.4 IPUOutfeedQueue(feed_name,
        outfeed_mode=None, outfeed_all=None, device_ordinal=0, replication_factor=1,
        io_batch_size=1).

        The mode is IPUOutfeedMode.ALL if it is not given, or is a name for the queue, which was the
        first argument before SDK 2.4. A given `replication_factor` must be the
        program's number of replicas, or the program fails. The other arguments make no difference.

        Raises TypeError for other arguments, ValueError for a mode that is none and for
        numbers that are out of range.
        """
        plugin.load()
        options = feed_arguments.either_generation("IPUOutfeedQueue", 0, args, kwargs, _NEW, _OLD)
        options["outfeed_all"] = checks.boolean("outfeed_all", options["outfeed_all"],
                                                optional=True)
        self._mode = _mode(options)
        feed_arguments.check(options)
        for name in ("buffer_depth", "io_batch_size"):
            checks.integer(name, options[name], least=1, optional=True)
        self._id = feed_arguments.new_id(options["feed_name"] or "outfeed")
        plugin.library().trm_tf_declare_outfeed(
            self._id.encode(), int(self._mode is IPUOutfeedMode.LAST),
            options["replication_factor"] or 0)
        self._structure = None
        self._types, self._shapes = [], []
        # The graphs that the operation which enqueues is in: a tf.function's own, in a TensorFlow
        # 1 graph also those around it.
        self._enqueued_in = weakref.WeakSet()
        self._outermost = None  # of these graphs, by a weak reference
        self._place = None  # the trace of the program that enqueues, or else the operation
        self._eager_dequeue = None

    @property
    def enqueued(self):
        """Whether what the default graph holds, in eager mode any program, writes to this queue.
        A function's graph does not see what other functions enqueue, such as one in which Keras
        infers shapes."""
        import tensorflow.compat.v1 as tf
        if tf.executing_eagerly():  # where each thread has a default graph of its own
            return self._structure is not None
        return tf.get_default_graph() in self._enqueued_in

    @property
    def deleter(self):
        """An operation that drops what has not been dequeued, and in the mode LAST the last
        element. It fails with NotFoundError if no program has written to the queue yet, with
        FailedPreconditionError while one runs.
        """
        import tensorflow.compat.v1 as tf
        with tf.device("/device:CPU:0"):
            return graphs.apply_op("IpuOutfeedDelete", feed=self._id)

    def enqueue(self, tensors):
        """Adds the operation that writes `tensors`, a tensor or a structure of them, of any types
        and of known shapes, to the queue. Return it from the loop body, or let something that is
        returned depend on it.

        Raises ValueError the second time in a graph, and for shapes that are not known. A program
        that enqueues a tensor without elements fails with InvalidArgumentError when it is run.
        """
        import tensorflow.compat.v1 as tf
        trace = tracing.current()
        around = graphs.graphs_around()
        is_function = eager.is_outside_functions() if trace is None else trace.is_function
        is_part = trace is not None and not is_function  # of the graph around the trace's
        if (trace.graph.outer_graph if is_part else around[0]) in self._enqueued_in:
            raise ValueError("An outfeed can only be enqueued once.")
        tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
        flat = tf.nest.flatten(tensors)
        if not flat:
            raise ValueError("There is nothing to enqueue: the structure holds no tensor.")
        for one in flat:
            if not one.shape.is_fully_defined():
                raise ValueError(f"The tensor {one.name} has the shape {one.shape}, but what goes "
                                 "to an outfeed must have a shape that is known.")
        if any(0 in one.shape.as_list() for one in flat):
            tracing.refuse("Detected an input tensor to an outfeed queue with a dimension of size "
                           "0. Please remove it from the inputs.", errors.INVALID_ARGUMENT)
        feed = self._id if trace is None else trace.feed(self._id)
        operation = tracing.side_effect(custom_calls.OUTFEED, {"feed": feed}, flat, [], [])
        self._types = [one.dtype.base_dtype for one in flat]
        self._shapes = [one.shape.as_list() for one in flat]
        self._enqueued_in = weakref.WeakSet(around[:1] if is_function else around)
        self._outermost = weakref.ref(around[-1])
        self._place = trace or operation
        # With the structure, another thread may dequeue.
        self._structure, self._eager_dequeue = tensors, None
        return operation

    def dequeue(self, wait_for_completion=False):
        """The tensors that read the queue, in the structure that was enqueued.

        In the mode ALL they have one dimension more, the number of elements since the last time;
        in the mode LAST reading fails with FailedPreconditionError before there is an element.
        The replicas, where there are several, are a dimension after that; as long as no
        configuration says how many there are, the shapes are unknown.
        Read the queue in a run of its own. `wait_for_completion` makes no difference: what a
        program has written can be read when its run is over.

        In eager mode a queue that no function has enqueued to gives [].

        Raises ValueError in a graph if nothing has been enqueued.
        """
        del wait_for_completion
        import tensorflow.compat.v1 as tf
        if not tf.executing_eagerly():
            if self._outermost is None or self._outermost() is not graphs.graphs_around()[-1]:
                raise ValueError("Trying to dequeue elements from an outfeed before it was "
                                 "enqueued: build the program first.")
            return self._dequeue()
        if self._structure is None:
            return []
        dequeue = self._eager_dequeue  # a thread that enqueues again drops the function
        if dequeue is None:
            dequeue = self._eager_dequeue = functions.without_retracing_warning(
                tf.function(self._dequeue, autograph=False))
        return dequeue()

    def _dequeue(self):
        import tensorflow.compat.v1 as tf
        with tf.device("/device:CPU:0"):
            operation = graphs.apply_op(
                "IpuOutfeedDequeue", feed=self._id, keep_last=self._mode is IPUOutfeedMode.LAST,
                dtypes=self._types, ranks=[len(shape) for shape in self._shapes],
                dims=[size for shape in self._shapes for size in shape])
        tensors = list(operation.outputs)
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(self._dequeued_shape(shape))
        return tf.nest.pack_sequence_as(self._structure, tensors)

    def read(self):
        """Takes all elements that are there now, as a structure of arrays
        [elements(, replicas), ...]; None if there are none. The runtime calls it in any thread, of
        a queue in the mode ALL."""
        import tensorflow.compat.v1 as tf
        if self._structure is None:
            return None
        found = eager.read_on_cpu(
            "IpuOutfeedDequeue", self._types, feed=self._id, keep_last=False,
            ranks=[len(shape) for shape in self._shapes],
            dims=[size for shape in self._shapes for size in shape])
        return tf.nest.pack_sequence_as(self._structure, found) if len(found[0]) else None

    def zeros(self, lead):
        """Zeros with the leading dimensions `lead`, which the runtime returns in the place of
        results."""
        import numpy as np
        import tensorflow.compat.v1 as tf
        return tf.nest.pack_sequence_as(self._structure, [
            np.zeros([*lead, *shape], dtype.as_numpy_dtype)
            for dtype, shape in zip(self._types, self._shapes)])

    def _dequeued_shape(self, shape):
        replicas = replication.factor(self._place)
        if replicas is None:
            return None
        return [*([] if self._mode is IPUOutfeedMode.LAST else [None]),
                *([] if replicas == 1 else [replicas]), *shape]

    def __iter__(self):
        """The elements that are there, one by one. Eager mode, and the mode ALL, only.

        Raises RuntimeError otherwise.
        """
        return IPUOutfeedQueueIterator(self)


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An IPUOutfeedQueue that is deleted with its last reference. Eager mode only."""

    def __init__(self, outfeed_mode=None, device_ordinal=None):
        """As IPUOutfeedQueue. Raises RuntimeError in a graph."""
        import tensorflow.compat.v1 as tf
        if not tf.executing_eagerly():
            raise RuntimeError("ScopedIPUOutfeedQueue can only be created in eager mode")
        super().__init__(outfeed_mode=outfeed_mode, device_ordinal=device_ordinal)
        weakref.finalize(self, delete, self._id).atexit = False


def delete(feed_id):
    """Drops what an outfeed queue has."""
    import tensorflow as tf
    try:
        eager.run_on_cpu("IpuOutfeedDelete", feed=feed_id)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
        pass  # no program has written to it, or one still does


class IPUOutfeedQueueIterator(collections.abc.Iterator):
    """The elements of an outfeed queue, one by one, until there is none."""

    def __init__(self, outfeed_queue):
        import tensorflow.compat.v1 as tf
        if not tf.executing_eagerly():
            raise RuntimeError("An IPUOutfeedQueue can only be iterated over in eager mode.")
        if outfeed_queue._mode is not IPUOutfeedMode.ALL:
            raise RuntimeError("An IPUOutfeedQueue can only be iterated over in the mode ALL.")
        self._queue, self._waiting = outfeed_queue, []

    def __next__(self):
        import tensorflow.compat.v1 as tf
        if not self._waiting and self._queue.enqueued:
            flat = tf.nest.flatten(self._queue.dequeue())
            self._waiting = [tf.nest.pack_sequence_as(self._queue._structure, list(one))
                             for one in zip(*[tf.unstack(tensor) for tensor in flat])]
        if not self._waiting:
            raise StopIteration
        return self._waiting.pop(0)


def _mode(options):
    mode = options["outfeed_mode"]
    is_name = isinstance(mode, str) and mode.upper() not in IPUOutfeedMode.__members__
    if mode is None or is_name:
        mode = IPUOutfeedMode.LAST if options["outfeed_all"] is False else IPUOutfeedMode.ALL
    if not isinstance(mode, IPUOutfeedMode):
        raise ValueError(f"outfeed_mode must be an IPUOutfeedMode, but it is {mode!r}.")
    return mode
