"""GradientAccumulationOptimizer, by the module that it was in at first."""

from tremula.tf.keras.optimizers.gradient_accumulation_optimizer import \
    GradientAccumulationOptimizer

__all__ = ["GradientAccumulationOptimizer"]
