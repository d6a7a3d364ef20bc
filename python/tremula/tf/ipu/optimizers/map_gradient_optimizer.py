"""An optimizer that changes gradients (`tensorflow.python.ipu.map_gradient_optimizer`)."""

from tremula.tf.ipu.optimizers import ipu_optimizer
from tremula.tf.runtime.base import checks


class MapGradientOptimizer(ipu_optimizer.IpuOptimizer):
    """Applies gradient_mapping_function(gradient, variable) to each gradient that there is."""

    def __init__(self, wrapped_optimizer, gradient_mapping_function,
                 name="MapGradientOptimizer"):
        super().__init__(wrapped_optimizer, name)
        self._gradient_mapping_function = checks.function("gradient_mapping_function",
                                                          gradient_mapping_function)

    def compute_gradients(self, *args, **kwargs):
        """The optimizer's gradients, mapped. A gradient that is None stays None."""
        return [(gradient if gradient is None
                 else self._gradient_mapping_function(gradient, variable), variable)
                for gradient, variable in self._opt.compute_gradients(*args, **kwargs)]

    def apply_gradients(self, *args, **kwargs):
        """As the optimizer inside does it."""
        return self._opt.apply_gradients(*args, **kwargs)
