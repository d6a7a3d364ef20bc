"""An optimizer that sums gradients over replicas."""

from tremula.tf.ipu.ops import cross_replica_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import ipu_wrappers


@inner.registered
class CrossReplicaOptimizer(ipu_wrappers.IpuOptimizer):
    """Sums each gradient over the replicas and hands it to the optimizer `opt`. Under an
    IPUStrategy Keras' optimizers do that by themselves."""

    def __init__(self, opt, name="CrossReplicaOptimizer", **kwargs):
        super().__init__(opt, name, **kwargs)

    def preprocess_gradients(self, grad, var):
        """(the gradients' sum, variable). See ipu.cross_replica_ops.cross_replica_sum()."""
        grad, var = super().preprocess_gradients(grad, var)
        return cross_replica_ops.cross_replica_sum(ipu_wrappers.dense(grad)), var
