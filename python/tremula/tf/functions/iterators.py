"""The iterators that datasets have in the scope of an IPUStrategy.

An iterator is an infeed queue that a tf.function can take as an argument: TensorFlow knows the
iterator by what describes the queue, so a function is traced once for each queue.
"""

import collections
import weakref

import tensorflow as tf

from tremula.tf.functions import programs
from tremula.tf.inner import eager, patches, strategies
from tremula.tf.runtime.base import feed_arguments

_EAGER = (
    "Accessing dataset elements can not be accessed in eager mode when inside 'IPUStrategy'. The "
    "dataset elements should be accessed inside of a 'tf.function' with 'jit_compile=True' set in "
    "order to achieve optimal performance. See documentation for detailed examples. If this "
    "behavior is required please set 'enable_dataset_iterators=False' when creating an "
    "'IPUStrategy'.")

_OUTSIDE = (
    "An iterator of 'IPUStrategy' was given to a function that TensorFlow runs by itself. Run the "
    "function by strategy.run, or make the strategy with 'enable_dataset_iterators=False'.")

_OPTIONAL = "IPU Dataset iterator does not support get_next_as_optional()."

_NO_END = (
    f"{_OPTIONAL} So a program does not see the end of the data, and `for element in iterator` "
    "needs a break. Use `for _ in tf.range(n): element = next(iterator)` for n elements.")

InfeedSpec = collections.namedtuple(
    "InfeedSpec", ["feed_id", "structure", "device_ordinal", "prefetch_depth", "optimise_latency"])
InfeedSpec.__doc__ = "What describes an infeed queue; `structure` is the elements', as text."


_queue_class = None


def use_queue(queue_class):
    """Registers the class of infeed queues; the module of IPUInfeedQueue calls this."""
    global _queue_class
    _queue_class = queue_class


class IPUIterator(strategies.owned_iterator()):
    """Gives the elements of a dataset to a compiled function, one at each next().

    `IPUIterator(dataset, device_ordinal=None, prefetch_depth=None, optimise_latency=False)` makes
    an infeed queue; `IPUIterator(infeed_spec=..., element_spec=...)` is a second name of one.
    """

    is_read_eagerly = False  # as well: in programs of SDK 2.1

    def __init__(self, dataset=None, infeed_spec=None, element_spec=None, **kwargs):
        # pylint: disable=super-init-not-called
        if (dataset is None) != (infeed_spec is not None and element_spec is not None) or (
                dataset is not None and (infeed_spec is not None or element_spec is not None)):
            raise ValueError("Either `dataset` or both `infeed_spec` and `element_spec` need to "
                             "be provided.")
        self._queue = None
        if dataset is None:
            self._infeed_spec, self._element_spec = infeed_spec, element_spec
            return
        self._queue = _queue_class(dataset, **kwargs)
        self._element_spec = dataset.element_spec
        self._infeed_spec = InfeedSpec(
            self._queue._id, repr(self._element_spec), kwargs.get("device_ordinal"),
            kwargs.get("prefetch_depth"), bool(kwargs.get("optimise_latency")))
        self._queue.initializer  # pylint: disable=pointless-statement

    def restart(self, dataset):
        """Continues with the beginning of another dataset of the same element_spec. Functions that
        read this iterator are not traced again."""
        self._queue.restart(dataset)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.get_next()
        except tf.errors.OutOfRangeError:
            raise StopIteration from None

    def next(self):
        """next(iterator)."""
        return self.__next__()

    def get_next(self):
        """The next element, in a function that is compiled, or in eager mode if is_read_eagerly.

        Raises RuntimeError in eager mode otherwise, FailedPreconditionError in a function that is
        not compiled, OutOfRangeError past the end.
        """
        if tf.executing_eagerly():
            if not self.is_read_eagerly:
                raise RuntimeError(_EAGER)
            return self._queue.read_now()
        return feed_arguments.infeed(self._infeed_spec.feed_id)._dequeue()

    def get_next_as_optional(self):
        """Not supported. Raises NotImplementedError."""
        raise NotImplementedError(_OPTIONAL)

    @property
    def element_spec(self):
        """The type of an element, as tf.data.Dataset.element_spec."""
        return self._element_spec

    @property
    def infeed_spec(self):
        """What describes the queue."""
        return self._infeed_spec

    @property
    def _iterator_resource(self):
        raise NotImplementedError(_OUTSIDE)  # where TensorFlow wants the iterator itself

    @property
    def _type_spec(self):
        return _IPUIteratorSpec(self._infeed_spec, self._element_spec)

    def _not_saveable(self, *_arguments):
        raise NotImplementedError("IPU Dataset iterator is not currently saveable.")

    _serialize_to_tensors = _restore_from_tensors = _copy_trackable_to_cpu = _not_saveable
    _gather_saveables_for_checkpoint = _save = _restore = _not_saveable


def _refuse_endless_loop():
    raise NotImplementedError(_NO_END)


patches.loop_over_iterators(IPUIterator, _refuse_endless_loop)


class IPUOwnedIterator(IPUIterator):
    """An IPUIterator whose queue is deleted with it."""

    def __init__(self, dataset=None, infeed_spec=None, element_spec=None, **kwargs):
        super().__init__(dataset, infeed_spec, element_spec, **kwargs)
        if self._queue is not None:
            weakref.finalize(self, delete, self._queue._id).atexit = False

    @property
    def _type_spec(self):
        return _IPUOwnedIteratorSpec(self._infeed_spec, self._element_spec)


def delete(feed_id):
    """Deletes an infeed queue, and the programs that read the queue."""
    programs.forget_feed(feed_id)
    try:
        eager.run_on_cpu("IpuInfeedReset", feed=feed_id, remove=True, refusal="", empty="")
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
        pass  # no program has used it, or one still does


class _IPUIteratorSpec(tf.TypeSpec):
    """The type of an IPUIterator: all of it, so that there is nothing to pass beside it."""

    value_type = property(lambda self: IPUIterator)
    _component_specs = ()

    def __init__(self, infeed_spec, element_spec):
        self._infeed_spec, self._element_spec = infeed_spec, element_spec

    def _serialize(self):
        return self._infeed_spec, self._element_spec

    def _to_components(self, value):
        return ()

    def _from_components(self, components):
        return self.value_type(infeed_spec=self._infeed_spec, element_spec=self._element_spec)

    @classmethod
    def from_value(cls, value):
        """The type of a value."""
        return cls(value.infeed_spec, value.element_spec)


class _IPUOwnedIteratorSpec(_IPUIteratorSpec):
    value_type = property(lambda self: IPUOwnedIterator)
