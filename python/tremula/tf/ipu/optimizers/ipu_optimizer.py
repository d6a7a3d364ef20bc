"""The base of optimizers that wrap another one (`tensorflow.python.ipu.ipu_optimizer`)."""

from tremula.tf.ipu.optimizers._ipu_optimizer import IpuOptimizer
# In the first releases this was the module of that class.
from tremula.tf.ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer

__all__ = ["CrossReplicaOptimizer", "IpuOptimizer"]


def __getattr__(name):
    raise AttributeError(f"module 'tensorflow.python.ipu.ipu_optimizer' has no attribute {name!r}")
