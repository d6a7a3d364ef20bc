"""An optimizer for graphs on several IPUs (`tensorflow.python.ipu.sharded_optimizer`)."""

from tremula.tf.ipu import sharding
from tremula.tf.ipu.optimizers import ipu_optimizer


class ShardedOptimizer(ipu_optimizer.IpuOptimizer):
    """Puts the gradient of an operation on the operation's IPU, and what has none yet beside its
    neighbours."""

    def __init__(self, optimizer):
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, loss, var_list=None, **kwargs):
        """The optimizer's gradients. See ipu.ipu_optimizer.IpuOptimizer.compute_gradients()."""
        sharding.enable_sharded_gradients()
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies gradients; the graph's sharding is then spread. See
        ipu.ipu_optimizer.IpuOptimizer.apply_gradients()."""
        operation = self._opt.apply_gradients(grads_and_vars, global_step, name)
        sharding.propagate_sharding(operation.graph)
        return operation
