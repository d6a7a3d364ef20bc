"""Optimizers: those of `keras.ipu.optimizers`, of `ipu.keras.optimizers` in the earlier releases,
and of `ipu_tensorflow_addons.keras.optimizers`."""

from tremula.tf.keras import lazy

# Module -> the names that this package shows of it.
_MODULES = {
    "adam": ("ALSOptimizerAdam",),
    "adam_optimizer": ("AdamIpuOptimizer",),
    "als_optimizer": ("ALSDefaults", "ALSGradientAccumulationOptimizer", "ALSOptimizer",
                      "ALSOptimizerGradientAccumulationWrapper"),
    "automatic_loss_scaling_optimizer": ("AutomaticLossScalingOptimizer",),
    "cross_replica_optimizer": ("CrossReplicaOptimizer",),
    "gradient_accumulate_optimizer": (),
    "gradient_accumulation_optimizer": ("GradientAccumulationOptimizer",),
    "gradient_descent": ("ALSOptimizerSGD",),
    "ipu_optimizer_base": ("IpuOptimizerBase",),
    "ipu_wrappers": ("IpuOptimizer",),
    "lamb_optimizer": ("LAMBIpuOptimizer",),
    "map_gradient_optimizer": ("MapGradientOptimizer", "MapGradientOptimizerInvertedChaining"),
    "optimizer_v2_wrapper": (),
    "parameter_unscaling_optimizer": (),
    "rmsprop": ("ALSOptimizerRMSProp",),
    "sgd_optimizer": ("SGDIpuOptimizer",),
}

_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_PLACES)  # noqa: PLE0605

__getattr__, __dir__ = lazy.names(__name__, _PLACES, _MODULES)
