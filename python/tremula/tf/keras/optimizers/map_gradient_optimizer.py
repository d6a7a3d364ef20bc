"""Optimizers that change gradients before they apply them."""

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import ipu_wrappers


@inner.registered
class MapGradientOptimizer(ipu_wrappers.IpuOptimizer):
    """Applies gradient_mapping_function(gradient, variable) for each gradient. Of several around
    each other, the innermost maps first. Raises ValueError for what cannot be called."""

    def __init__(self, opt, gradient_mapping_function, name="MapGradientOptimizer"):
        if not callable(gradient_mapping_function):
            raise ValueError("gradient_mapping_function must be a callable.")
        super().__init__(opt, name)
        self._gradient_mapping_function = gradient_mapping_function

    @property
    def gradient_mapping_function(self):
        """The function."""
        return self._gradient_mapping_function

    def preprocess_gradients(self, grad, var):
        """(the mapped gradient, variable)."""
        grad, var = super().preprocess_gradients(grad, var)
        return self._gradient_mapping_function(grad, var), var

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(),
                "gradient_mapping_function": self._gradient_mapping_function}


@inner.registered
class MapGradientOptimizerInvertedChaining(MapGradientOptimizer):
    """The same, but the outermost of several maps first."""

    def __init__(self, opt, gradient_mapping_function,
                 name="MapGradientOptimizerInvertedChaining"):
        super().__init__(opt, gradient_mapping_function, name)

    def _mapped(self, grads_and_vars):
        return grads_and_vars  # each gradient is mapped when it is applied

    def _resource_apply_dense(self, grad, handle, apply_state=None):
        return super()._resource_apply_dense(
            self._gradient_mapping_function(grad, handle), handle, apply_state)
