"""What strategies of tf.distribute are made of."""

import contextlib
import functools
import threading

from tremula.tf.inner import marks

_local = threading.local()


def strategy():
    """The strategy whose scope is around, or None."""
    from tensorflow.python.distribute import distribute_lib
    return distribute_lib.get_strategy() if distribute_lib.has_strategy() else None


@contextlib.contextmanager
def xla_context():
    """A block in which what is built knows that it is for XLA."""
    from tensorflow.python.ops import control_flow_ops
    context = control_flow_ops.XLAControlFlowContext()
    context.Enter()
    try:
        yield
    finally:
        context.Exit()


def update_context(device):
    """The block in which a strategy updates variables."""
    from tensorflow.python.distribute import distribute_lib
    return distribute_lib.UpdateContext(device)


def current_device():
    """The name of the device on which operations are placed now, or ""."""
    from tensorflow.python.distribute import device_util
    return device_util.current() or ""


def plain_initial_value(value):
    """A variable's initial value without what a checkpoint has put around the value."""
    from tensorflow.python.trackable import base
    return value.wrapped_value if isinstance(value, base.CheckpointInitialValue) else value


def _workers(cpu):
    from tensorflow.python.distribute import input_lib
    return input_lib.InputWorkers([(cpu, (cpu,))])


def dataset_iterator(dataset, cpu, strategy):
    """TensorFlow 1's iterator over a dataset in a strategy."""
    from tensorflow.python.distribute.v1 import input_lib
    return input_lib.DatasetIterator(dataset, _workers(cpu), strategy)


def input_function_iterator(function, cpu, strategy):
    """The same, over the dataset that function(InputContext) gives."""
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.distribute.v1 import input_lib
    return input_lib.InputFunctionIterator(function, _workers(cpu),
                                           [distribute_lib.InputContext()], strategy)


def distributed_dataset(dataset, cpu, strategy, options):
    """A distributed dataset of one worker, the CPU."""
    from tensorflow.python.distribute import input_util
    made = input_util.get_distributed_dataset(dataset, _workers(cpu), strategy, options=options)
    made.__class__ = _plainly_iterated(type(made))
    return made


@functools.cache
def _plainly_iterated(cls):
    """A class of distributed datasets, inside of which iterators are TensorFlow's own."""
    def iterate(self):
        before, _local.is_plain = iterates_plainly(), True
        try:
            return cls.__iter__(self)
        finally:
            _local.is_plain = before

    return type(cls.__name__, (cls,), {"__iter__": iterate})


def iterates_plainly():
    """Whether iter(dataset) is asked for by a distributed dataset."""
    return getattr(_local, "is_plain", False)


def numpy_dataset(arrays, cpu, session):
    """A dataset of arrays, in variables of the CPU."""
    from tensorflow.python.distribute import numpy_dataset as numpy_datasets
    return numpy_datasets.one_host_numpy_dataset(arrays, numpy_datasets.SingleDevice(cpu), session)


def plain_iterator(dataset):
    """iter(dataset) as it is outside of strategies."""
    from tensorflow.python.data.ops import dataset_ops
    return dataset_ops.DatasetV2.__iter__.__wrapped__(dataset)


def owned_iterator():
    """The class of the iterators of datasets in eager mode."""
    from tensorflow.python.data.ops import iterator_ops
    return iterator_ops.OwnedIterator


# ---- Several processes ----

def collective_extended():
    """The class of what TensorFlow asks of a strategy whose workers talk by collectives."""
    from tensorflow.python.distribute import collective_all_reduce_strategy
    return collective_all_reduce_strategy.CollectiveAllReduceExtended


def distributed_values():
    """The module of what has a value on every replica: variables, their policies, plain values."""
    from tensorflow.python.distribute import values
    return values


def mirrored_variable(strategy, make, classes, policies, arguments):
    """A variable of a strategy around the list of plain ones that make(**arguments) makes."""
    from tensorflow.python.distribute import distribute_utils
    return distribute_utils.create_mirrored_variable(strategy, make, classes, policies,
                                                     **arguments)


def of_first_replica(structure):
    """A structure with the first replica's values of what has one on every replica."""
    from tensorflow.python.distribute import distribute_utils
    return distribute_utils.select_replica(0, structure)


def single_device(place):
    """The device's name, where a variable is to be colocated with numpy_dataset.SingleDevice."""
    from tensorflow.python.distribute import numpy_dataset as numpy_datasets
    return place.device if isinstance(place, numpy_datasets.SingleDevice) else None


def broadcast(value, sends, size, group, instance):
    """The value that the one member of a group with `sends` has, on all of them."""
    import tensorflow as tf
    from tensorflow.python.ops import collective_ops
    if not sends:
        return collective_ops.broadcast_recv(value.shape, value.dtype, size, group, instance)
    sent = collective_ops.broadcast_send(value, value.shape, value.dtype, size, group, instance)
    with tf.control_dependencies([sent]):
        return tf.identity(value)


@contextlib.contextmanager
def host_values(device):
    """What is added to the graph meanwhile is computed on a host, beside nothing else."""
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.framework import ops
    beside = attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(s=[b"loc:@cpu"]))
    graph = ops.get_default_graph()
    with marks.without_marks(), graph.colocate_with(None, ignore_existing=True), \
            tf.device(device), graph._attr_scope({"_class": beside}):
        yield
