"""An optimizer for graphs on several IPUs (`tensorflow.python.ipu.sharded_optimizer`)."""

from tremula.tf.ipu import sharding
from tremula.tf.ipu.optimizers import ipu_optimizer


class ShardedOptimizer(ipu_optimizer.IpuOptimizer):
    """Trains a graph on several IPUs by another optimizer.

    optimizer   a tf.train.Optimizer, which computes and applies the gradients

    The gradient of an operation is on the operation's IPU. Operations of the update that are on no
    IPU go to that of a neighbour (ipu.sharding.propagate_sharding()).
    """

    def __init__(self, optimizer):
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, loss, var_list=None, **kwargs):
        """The optimizer's gradients. See ipu.ipu_optimizer.IpuOptimizer.compute_gradients()."""
        sharding.enable_sharded_gradients()
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies gradients, after which ipu.sharding.propagate_sharding() has
        put the update on IPUs. See
        ipu.ipu_optimizer.IpuOptimizer.apply_gradients()."""
        operation = self._opt.apply_gradients(grads_and_vars, global_step, name)
        sharding.propagate_sharding(operation.graph)
        return operation
