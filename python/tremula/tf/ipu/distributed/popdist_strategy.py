"""Training by several instances whose replicas are parts of one program
(`ipu.distributed.popdist_strategy`)."""

import popdist
import tensorflow as tf

from tremula.tf.functions import hooks
from tremula.tf.inner import graphs, strategies
from tremula.tf.ipu import _processes, ipu_strategy
from tremula.tf.ipu.distributed import _variables, host_collective_ops
from tremula.tf.ipu.ipu_multi_worker_strategy import (
    IPU_VARIABLE_CLASS_MAPPING, IPU_VARIABLE_POLICY_MAPPING, IPUDistributedVariable,
    IPUMirroredVariable, IPUOnReadPolicy, IPUOnWritePolicy, IPUSyncOnReadVariable)
from tremula.tf.ipu.ops import cross_replica_ops, replication_ops

__all__ = ["IPUDistributedVariable", "IPUMirroredVariable", "IPUMultiReplicaStrategy",
           "IPUMultiReplicaStrategyV1", "IPUOnReadPolicy", "IPUOnWritePolicy",
           "IPUSyncOnReadVariable", "IPU_VARIABLE_CLASS_MAPPING", "IPU_VARIABLE_POLICY_MAPPING",
           "PopDistExtendedV1", "PopDistStrategy", "PopDistStrategyV1"]

_SUM, _MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


class PopDistStrategy(ipu_strategy.IPUStrategyV1):
    """An IPUStrategy of one of the instances that poprun or mpirun has started.

    Variables have the initial values of instance 0. In a program, gradients are summed over the
    replicas of all instances, so that a loss is divided by the batch of all of them. What is
    reduced on the CPU is reduced over the instances.
    """

    def __init__(self, ipu_device="/device:IPU:0", add_ipu_cross_replica_reductions=True,
                 enable_dataset_iterators=True, enable_keras_extensions=True):
        """`add_ipu_cross_replica_reductions` False leaves what is reduced in a program as it is;
        the other arguments are those of an IPUStrategy.

        Raises RuntimeError where MPI is missing.
        """
        popdist.init()
        _processes.begin()
        self._adds_reductions = add_ipu_cross_replica_reductions
        super().__init__(ipu_device, enable_dataset_iterators=enable_dataset_iterators,
                         enable_keras_extensions=enable_keras_extensions)

    def _make_extended(self, ipu_device, cpu_device):
        del cpu_device
        return PopDistExtendedV1(self, None, ipu_device, self._adds_reductions)

    def update_ipu_config(self, config):
        """Puts into `config` (an IPUConfig) how many instances there are, and which this one is.
        Returns `config`."""
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = popdist.getNumInstances()
        distribution.process_index = popdist.getInstanceIndex()
        return config


class PopDistExtendedV1(_variables.DistributedExtended):
    """What TensorFlow asks of a PopDistStrategy."""

    def __init__(self, container_strategy, cluster_resolver, ipu_device,
                 add_ipu_cross_replica_reductions):
        del cluster_resolver
        self._adds_reductions = add_ipu_cross_replica_reductions
        super().__init__(container_strategy, ipu_device)

    def _reduce_to(self, reduce_op, value, destinations, options=None):
        del destinations, options
        if reduce_op not in (_SUM, _MEAN):
            raise ValueError(f"Unsupported reduce op: {reduce_op}")
        if self.is_unreduced():
            return value
        if not self._is_on_ipu():
            with tf.device(self._cpu_device):
                return host_collective_ops.allreduce(
                    value, reduce_op, tensor_name=_variables.unique_name("reduce"))
        if not self._adds_reductions:
            return tf.identity(value)
        value = tf.convert_to_tensor(value)
        if reduce_op == _SUM:
            return cross_replica_ops.cross_replica_sum(value)
        if tf.compat.v1.executing_eagerly_outside_functions():
            return cross_replica_ops.cross_replica_mean(value)
        return replication_ops.replication_normalise(cross_replica_ops.cross_replica_sum(value))

    def _is_on_ipu(self):
        """Whether what is built or run now is for the IPU."""
        device = strategies.current_device()
        if "CPU" in device.upper():
            return False
        return hooks.ipu(device) is not None or graphs.in_static_program()

    @property
    def _num_replicas_in_sync(self):
        if tf.compat.v1.executing_eagerly_outside_functions():
            return popdist.getNumTotalReplicas()
        return popdist.getNumInstances()


class IPUMultiReplicaStrategyV1(PopDistStrategy):
    """The name of a PopDistStrategy before SDK 2.4."""


PopDistStrategyV1 = PopDistStrategy
IPUMultiReplicaStrategy = IPUMultiReplicaStrategyV1
