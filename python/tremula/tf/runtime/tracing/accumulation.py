"""Sums of gradients, and of other things, over the mini-batches of a run."""

import contextlib
import enum
import functools
import threading

from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import program_state

# On instructions that add up: over how many iterations (src/host/schedule/schedule_control.c
# checks that).
COUNT_ATTRIBUTE = "gradient_accumulation_count"

_NAME = "GradientAccumulatorAddWithScale"  # of the additions, in profiles


class GradientAccumulationReductionMethod(enum.Enum):
    """SUM: the sum. MEAN: the sum of gradients that are divided by their number first.
    RUNNING_MEAN: the mean of those so far, which keeps numbers small all the time."""
    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, reduction_method):
        """The member that is meant: a member, or its name in any case.

        Raises ValueError for anything else.
        """
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str) and reduction_method.upper() in cls.__members__:
            return cls[reduction_method.upper()]
        names = ", ".join(cls.__members__)
        raise ValueError(f"Cannot parse {reduction_method} as one of {cls.__name__}. Valid values "
                         f"are: {names}.")


_Method = GradientAccumulationReductionMethod


def takes_old_positions(init):
    """A decorator of an optimizer's __init__(self, opt, num_mini_batches, offload, shards, dtype,
    reduction_method, name): the name may come after `offload` too, as up to SDK 1.4, and after
    `dtype`, as in SDK 2."""
    @functools.wraps(init)
    def call(self, *args, **kwargs):
        if len(args) in (4, 6) and isinstance(args[-1], str) \
                and args[-1].upper() not in _Method.__members__ and "name" not in kwargs:
            *args, kwargs["name"] = args
        init(self, *args, **kwargs)

    return call


_local = threading.local()


@contextlib.contextmanager
def applying(count):
    """A block that builds what happens once in `count` iterations."""
    before = whole_count(1)
    _local.count = before * count
    try:
        yield
    finally:
        _local.count = before


def whole_count(count):
    """How many iterations a sum of `count` values takes: those of the sums around it, too, in whose
    applying() it is built."""
    return getattr(_local, "count", 1) * count


def scaled(value, factor):
    """A gradient times a scalar. That of a weight that several stages of a pipeline use is a sum
    over stages, each of which scales its own part."""
    import tensorflow.compat.v1 as tf
    factor = tf.cast(factor, value.dtype)
    parts = _parts_of_stages(value)
    return tf.add_n([part * factor for part in parts]) if parts else value * factor


def _parts_of_stages(value):
    parts = list(value.op.inputs) if value.op.type == "AddN" else []
    sources = [part.op.inputs[0].op if part.op.type == "Identity" else part.op for part in parts]
    return parts if any(one.type == op_types.STAGE_BACKWARD for one in sources) else []


class Accumulator:
    """One sum, a value of the program's state."""

    def __init__(self, like, dtype, name):
        """`dtype` is a type, a function that gives one for `like`, or None for like's own."""
        import tensorflow.compat.v1 as tf
        if callable(dtype) and not isinstance(dtype, (type, tf.DType)):
            dtype = dtype(like)
        dtype = like.dtype.base_dtype if dtype is None else tf.as_dtype(dtype)
        self._state = program_state.State(dtype, like.shape, name)

    def add(self, value, method=_Method.SUM, index=None, count=None):
        """The operation that adds the value number `index` (a scalar int32 tensor, from 0) of
        `count` (a scalar int32 tensor)."""
        import tensorflow.compat.v1 as tf
        value = tf.cast(tf.convert_to_tensor(value), self._state.dtype)
        if method is _Method.MEAN:
            value = scaled(value, 1.0 / tf.cast(count, tf.float32))
        elif method is _Method.RUNNING_MEAN:
            before = tf.cast(index, tf.float32)
            share = 1.0 / (before + 1.0)
            kept = self._state.read() * tf.cast(before * share, value.dtype)
            return self._state.assign(tf.add(kept, scaled(value, share), name=_NAME))
        elif _parts_of_stages(value):
            value = scaled(value, 1.0)  # programs look for the products in a sum too
        return self._state.assign_add(value, _NAME)

    def read(self):
        """The sum, a tensor of the accumulator's own type."""
        return self._state.read()

    def assign(self, value):
        """The operation that makes it a tensor of the accumulator's type and shape."""
        return self._state.assign(value)

    def clear(self):
        """The operation that makes it zeros again."""
        import tensorflow.compat.v1 as tf
        return self._state.assign(tf.zeros(self._state.shape, self._state.dtype))


def every(value, count, name):
    """The sum of `value` over `count` iterations of the loop around in the last of them, zeros in
    the others: a tensor of its type and shape. Build it in the frontend attribute
    COUNT_ATTRIBUTE."""
    import tensorflow.compat.v1 as tf
    seen = program_state.State(tf.int32, [], f"{name}/count")
    total = Accumulator(value, None, f"{name}/sum")
    with tf.control_dependencies([total.add(value)]):
        now, summed = tf.identity(seen.read() + 1), total.read()
    last = tf.equal(now, count)
    zeros = tf.zeros_like(summed)
    result = tf.where(last, summed, zeros)
    with tf.control_dependencies([result]):
        kept = [total.assign(tf.where(last, zeros, summed)),
                seen.assign(tf.where(last, tf.zeros_like(now), now))]
    with tf.control_dependencies(kept):
        return tf.identity(result)


def of_gradients(grads_and_vars, dtype, name):
    """Accumulators for those of a list of (gradient, variable) that have a gradient: a list with
    None where there is none."""
    return [None if gradient is None else Accumulator(variable, dtype, f"{name} of {variable.name}")
            for gradient, variable in grads_and_vars]
