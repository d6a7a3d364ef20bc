"""An optimizer for replicas (`tensorflow.python.ipu.cross_replica_optimizer`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import cross_replica_ops
from tremula.tf.ipu.optimizers._ipu_optimizer import IpuOptimizer


def apply_cross_replica_op_single(grad, var):
    """(the mean of `grad`, of any shape and a type of numbers, over the replicas, `var`); a
    gradient that is None stays None. Raises ValueError in loops for a shape that is not known."""
    if grad is None:
        return grad, var
    grad = tf.convert_to_tensor(grad)
    with tf.colocate_with(grad):
        return cross_replica_ops.cross_replica_mean(grad), var


def apply_cross_replica_op(grads_and_vars):
    """apply_cross_replica_op_single(), with its shapes, types and errors (ValueError), for a list
    of (gradient, variable)."""
    return [apply_cross_replica_op_single(grad, var) for grad, var in grads_and_vars]


class CrossReplicaOptimizer(IpuOptimizer):
    """Applies the mean of the replicas' gradients, so that their variables stay equal."""

    def __init__(self, opt, name="CrossReplicaOptimizer"):
        super().__init__(opt, name)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies the means, as the optimizer inside does it. See
        ipu.ipu_optimizer.IpuOptimizer.apply_gradients()."""
        return self._opt.apply_gradients(apply_cross_replica_op(grads_and_vars), global_step, name)
