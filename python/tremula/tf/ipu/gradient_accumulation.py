"""How gradients of several mini-batches become one (`tensorflow.python.ipu.gradient_accumulation`).
"""

from tremula.tf.runtime.accumulation import GradientAccumulationReductionMethod

__all__ = ["GradientAccumulationReductionMethod"]
