"""Feeding a loop on the IPU from a dataset (`tensorflow.python.ipu.ipu_infeed_queue`)."""

from tremula import custom_calls
from tremula.tf.inner import datasets, eager, errors, graphs, strategies
from tremula.tf.runtime.base import checks, feed_arguments
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.tracing import tracing

_DEFAULT_DEPTH = 3
_FED_TYPES = ("float16", "float32", "int32", "bool", "int8", "uint8", "int16", "uint16", "uint32")
_NEW = ("device_ordinal", "prefetch_depth", "optimise_latency")
_OLD = ("feed_name", "device_ordinal", "replication_factor", "data_to_prefetch", "prefetch_depth")


def __getattr__(name):
    if name in ("IPUIterator", "IPUOwnedIterator", "_IPUIteratorSpec", "_IPUOwnedIteratorSpec"):
        from tremula.tf.functions import iterators  # classes of TensorFlow's, which this loads
        iterators.use_queue(IPUInfeedQueue)
        return getattr(iterators, name)
    raise AttributeError(f"module 'tensorflow.python.ipu.ipu_infeed_queue' has no attribute "
                         f"{name!r}")


def _check(options):
    feed_arguments.check(options)
    depth = checks.integer("prefetch_depth", options["prefetch_depth"], optional=True)
    if depth is not None and not 1 <= depth <= 255:
        raise ValueError("prefetch_depth must be greater than zero and less than 256, but it is "
                         f"{depth}.")
    checks.integer("data_to_prefetch", options["data_to_prefetch"], least=1, optional=True)


class IPUInfeedQueue:
    """Gives the elements of a dataset to a loop of a compiled program, one an iteration.

    Pass it to loops.repeat or loops.while_loop, and run `initializer` before the program. Several
    loops, one after the other, take the elements in their order; every run goes on where the one
    before stopped; past the end it fails with OutOfRangeError.
    """

    def __init__(self, dataset, *args, **kwargs):
        """IPUInfeedQueue(dataset, device_ordinal=None, prefetch_depth=None,
        optimise_latency=False), and as before SDK 2.4 IPUInfeedQueue(dataset, feed_name,
        device_ordinal=0, replication_factor=1, data_to_prefetch=1, prefetch_depth=None).

        At most `prefetch_depth` elements, 1 to 255, wait in the queue, and never more than the run
        will read; to read ahead of the next run, use the dataset's own prefetch. A given
        `replication_factor` must be the program's number of replicas, or the program fails. The
        other arguments make no difference.

        Raises TypeError for what is no dataset and for other arguments, ValueError for shapes
        that are not known and for numbers that are out of range.
        """
        import tensorflow.compat.v1 as tf
        options = feed_arguments.either_generation("IPUInfeedQueue", 1, args, kwargs, _NEW, _OLD)
        if not isinstance(dataset, (tf.data.Dataset, tf.compat.v2.data.Dataset)):
            raise TypeError("IPUInfeedQueue takes a tf.data.Dataset, but it was given "
                            f"{type(dataset).__name__}.")
        _check(options)
        plugin.load()
        self._structure = tf.data.get_output_types(dataset)
        self._types = tf.nest.flatten(self._structure)
        self._shapes = tf.nest.flatten(tf.data.get_output_shapes(dataset))
        for shape in self._shapes:
            if not shape.is_fully_defined():
                raise ValueError(f"Output shape {shape} is not fully defined. If using "
                                 "tf.Dataset.batch, set `drop_remainder=True`.")
        depth = options["prefetch_depth"]
        if depth is None:
            depth = _DEFAULT_DEPTH
        self._id = feed_arguments.new_id(options["feed_name"] or "infeed")
        feed_arguments.remember_infeed(self._id, self)
        plugin.library().trm_tf_declare_infeed(
            self._id.encode(), depth, options["replication_factor"] or 0)
        self._dequeued = self._initialized = False
        with tf.device("/device:CPU:0"):
            self._is_at_start = tf.executing_eagerly()
            self._source = dataset
            self._dataset = datasets.without_autotuning(dataset) if self._is_at_start else dataset
            self._iterator = strategies.plain_iterator(self._dataset) if self._is_at_start else (
                tf.data.make_initializable_iterator(dataset))
        self._initializer = None if tf.executing_eagerly() else self._make_initializer()

    @property
    def number_of_tuple_elements(self):
        """How many tensors an element has."""
        return len(self._types)

    @property
    def dequeued(self):
        """Whether a loop reads this queue."""
        return self._dequeued

    @property
    def initializer(self):
        """The operation, in the dataset's graph, that starts it from its beginning; in eager mode
        that is done at once, and this is None. May be read once. Running it fails with
        FailedPreconditionError for elements of types that cannot be fed, with InvalidArgumentError
        for those that have a tensor of no elements.

        Raises ValueError the second time.
        """
        import tensorflow.compat.v1 as tf
        if self._initialized:
            raise ValueError("The IPUInfeedQueue `initializer` function can only be accessed once.")
        self._initialized = True
        if tf.executing_eagerly():
            self._initialize_now()
            return None
        return self._initializer

    @property
    def deleter(self):
        """An operation that drops the elements that wait in the queue. It fails with NotFoundError
        if `initializer` has not been run since the last time."""
        return self._reset(delete=True)

    def get_next(self):
        """Not supported: a loop that is given the queue gets the elements.

        Raises ValueError.
        """
        raise ValueError("IPUInfeedQueue.get_next is obsolete: pass the queue to loops.repeat or "
                         "loops.while_loop, which hand its elements to the loop body.")

    def restart(self, dataset):
        """Eager mode: starts the queue again, from the beginning of a dataset whose elements have
        the same types and shapes. For the runtime."""
        # TensorFlow keeps its optimised form with the dataset: another one is optimised again.
        if dataset is not self._source:
            self._source, self._dataset = dataset, datasets.without_autotuning(dataset)
        self._is_at_start = False
        self._initialize_now()

    def next_element(self):
        """The next element as an optional: how the program is fed. For the runtime."""
        return self._iterator.get_next_as_optional()

    def read_now(self):
        """Eager mode: takes the next element, for the host. Raises OutOfRangeError past the end."""
        import tensorflow.compat.v1 as tf
        with tf.device("/device:CPU:0"):
            return self._iterator.get_next()

    def _make_initializer(self):
        """Built with the queue: the graph may be finalized when a program asks for it."""
        import tensorflow.compat.v1 as tf
        start = self._iterator.initializer
        with start.graph.as_default(), tf.device("/device:CPU:0"):
            return tf.group(start, self._reset(), name="InfeedInitializer")

    def _initialize_now(self):
        import tensorflow.compat.v1 as tf
        eager.run_on_cpu("IpuInfeedReset", feed=self._id, remove=False,
                          refusal=self._refused_types(), empty=self._empty())
        if not self._is_at_start:
            with tf.device("/device:CPU:0"):
                datasets.restart_iterator(self._iterator, self._dataset)
        self._is_at_start = False

    def _reset(self, delete=False):
        import tensorflow.compat.v1 as tf
        with tf.device("/device:CPU:0"):
            return graphs.apply_op("IpuInfeedReset", feed=self._id, remove=delete,
                                   refusal="" if delete else self._refused_types(),
                                   empty="" if delete else self._empty())

    def _dequeue(self):
        """One element, for the computation that is being traced: a loop's body, or all of it. Where
        that is impossible, zeros of a program that fails when it runs."""
        import tensorflow.compat.v1 as tf
        trace = tracing.current()
        if trace is None:
            raise errors.failed_precondition("Unsupported use of infeed operation - it's only "
                                             "supported inside of what is compiled for an IPU.")
        block = tf.get_default_graph()
        is_second = trace.infeed not in (None, self)
        self._dequeued = True
        if is_second or getattr(block, "_tremula_infeed", None) == self._id:
            tracing.refuse(outside.SECOND_INFEED if is_second else (
                "Currently calling `get_next()` multiple times on the same IPUInfeedQueue in the "
                "same computation block is not supported."))
            return tf.nest.pack_sequence_as(self._structure, [
                tf.zeros(shape, dtype) for shape, dtype in zip(self._shapes, self._types)])
        block._tremula_infeed = self._id
        trace.infeed = self
        operation = tracing.side_effect(custom_calls.INFEED, {"feed": trace.feed(self._id)}, [],
                                        self._types, self._shapes)
        return tf.nest.pack_sequence_as(self._structure, list(operation.outputs))

    def _refused_types(self):
        """Why elements of these types cannot be fed; empty if they can."""
        for i, dtype in enumerate(self._types):
            if dtype.name not in _FED_TYPES:
                name = {"float64": "double"}.get(dtype.name, dtype.name)  # as TensorFlow's C++
                return (f"Unsupported datatype {name} on index {i} of feed operation "
                        f"{self._id}. You should use a tf.DataSet.map() operation to cast the "
                        f"element into one of {', '.join(_FED_TYPES)}.")
        return ""

    def _empty(self):
        """Why elements of these shapes cannot be fed; empty if they can."""
        if any(0 in shape.as_list() for shape in self._shapes):
            return ("Detected an input tensor to an infeed queue with a dimension of size 0. "
                    "Please remove it from the inputs.")
        return ""
