"""How gradients of several mini-batches become one (`tensorflow.python.ipu.gradient_accumulation`).
"""

from tremula.tf.runtime.tracing.accumulation import GradientAccumulationReductionMethod

__all__ = ["GradientAccumulationReductionMethod"]
