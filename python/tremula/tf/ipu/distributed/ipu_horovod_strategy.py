"""Training by several processes that reduce on their hosts, with Horovod's functions
(`ipu.distributed.ipu_horovod_strategy`, `ipu.horovod.ipu_horovod_strategy`)."""

import tensorflow as tf

from tremula import group
from tremula.tf.ipu import _processes, horovod, ipu_strategy
from tremula.tf.ipu.distributed import _variables
from tremula.tf.runtime.base import checks

_REDUCE_OPS = {tf.distribute.ReduceOp.SUM: group.SUM, tf.distribute.ReduceOp.MEAN: group.MEAN}


class IPUHorovodStrategyV1(ipu_strategy.IPUStrategyV1):
    """Runs the same program in several processes, and keeps their variables equal.

    It is an IPUMultiWorkerStrategy that talks by MPI: gradients are summed on the hosts, and what a
    compiled program needs of the other processes is cut out of it. A loss is divided by the batch
    of all processes.
    """

    def __init__(self, ipu_device="/device:IPU:0", variables_on_host=False):
        """`variables_on_host` keeps variables in the memory of the host, where optimizers must be
        applied then. Raises RuntimeError where MPI is missing."""
        checks.boolean("variables_on_host", variables_on_host)
        self._variables_on_host = variables_on_host
        if not horovod._STATE["ready"]:
            horovod.init()
        super().__init__(ipu_device, enable_dataset_iterators=False, enable_keras_extensions=False)

    def _make_extended(self, ipu_device, cpu_device):
        return IPUHorovodExtendedV1(self, None, ipu_device, self._variables_on_host, cpu_device)


class IPUHorovodExtendedV1(_variables.DistributedExtended):
    """What TensorFlow asks of an IPUHorovodStrategyV1."""

    def __init__(self, container_strategy, cluster_resolver, ipu_device, variables_on_host,
                 cpu_device="/device:CPU:0"):
        del cluster_resolver
        self._variables_on_host = variables_on_host
        super().__init__(container_strategy, ipu_device, cpu_device)

    def _create_variable(self, next_creator, **kwargs):
        is_read = kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
        if self._variables_on_host and not is_read and kwargs.get("colocate_with") is None:
            kwargs["colocate_with"] = self._cpu_device
            if not tf.compat.v1.executing_eagerly_outside_functions():
                kwargs["caching_device"] = self._ipu_device  # where a step reads the value
        return super()._create_variable(next_creator, **kwargs)

    def _reduce_to(self, reduce_op, value, destinations, options=None):
        del destinations, options
        with _variables.on_host("host_reduce", self._cpu_device):
            return self._reduced(reduce_op, value)

    def _batch_reduce_to(self, reduce_op, value_destination_pairs, options=None):
        del options
        with _variables.on_host("host_batch_reduce", self._cpu_device):
            return [self._reduced(reduce_op, value) for value, _ in value_destination_pairs]

    def _reduced(self, reduce_op, value):
        if reduce_op not in _REDUCE_OPS:
            raise ValueError(f"Unsupported reduce op: {reduce_op}")
        if isinstance(value, tf.IndexedSlices):
            value = tf.convert_to_tensor(value)
        value = tf.identity(value)
        result = _processes.collective(
            "HorovodAllreduce", value, tensor_name=_variables.unique_name("reduce"),
            reduce_op=_REDUCE_OPS[reduce_op])
        if not tf.executing_eagerly():
            result.set_shape(value.shape)
        return result

    @property
    def _num_replicas_in_sync(self):
        return horovod.size()

    @property
    def experimental_between_graph(self):
        """True: each process has a graph of its own."""
        return True

    @property
    def should_checkpoint(self):
        """Whether this process writes checkpoints: the first one does."""
        return horovod.rank() == 0

    should_save_summary = should_checkpoint


IPUHorovodStrategy = IPUHorovodStrategyV1
IPUHorovodExtended = IPUHorovodExtendedV1
