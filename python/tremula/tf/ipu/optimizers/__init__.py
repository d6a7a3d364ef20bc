"""Optimizers that wrap TensorFlow's (`tensorflow.python.ipu.optimizers`): modules, and their
classes."""

import importlib

_CLASSES = {
    "AutomaticLossScalingOptimizer": "automatic_loss_scaling_optimizer",
    "CrossReplicaOptimizer": "cross_replica_optimizer",
    "CrossReplicaGradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "CrossReplicaGradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "GradientAccumulationOptimizer": "gradient_accumulation_optimizer",
    "GradientAccumulationOptimizerV2": "gradient_accumulation_optimizer",
    "IpuOptimizer": "ipu_optimizer",
    "MapGradientOptimizer": "map_gradient_optimizer",
    "ShardedOptimizer": "sharded_optimizer",
}

__all__ = [*_CLASSES, *dict.fromkeys(_CLASSES.values())]


def __getattr__(name):
    if name in _CLASSES.values():
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _CLASSES:
        raise AttributeError(f"module 'tensorflow.python.ipu.optimizers' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_CLASSES[name]}"), name)
