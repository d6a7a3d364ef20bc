"""Optimizers that change gradients before they apply them."""

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import ipu_wrappers


class _Mapping(ipu_wrappers.IpuOptimizer):
    """The base of both. Raises ValueError for a function that cannot be called."""

    def __init__(self, opt, gradient_mapping_function, name):
        if not callable(gradient_mapping_function):
            raise ValueError("gradient_mapping_function must be a callable.")
        super().__init__(opt, name)
        self._gradient_mapping_function = gradient_mapping_function

    @property
    def gradient_mapping_function(self):
        """The function."""
        return self._gradient_mapping_function

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(),
                "gradient_mapping_function": self._gradient_mapping_function}


@inner.registered
class MapGradientOptimizer(_Mapping):
    """Applies gradient_mapping_function(gradient, variable) for each gradient. Of several around
    each other, the innermost maps first."""

    def __init__(self, opt, gradient_mapping_function, name="MapGradientOptimizer"):
        super().__init__(opt, gradient_mapping_function, name)

    def preprocess_gradients(self, grad, var):
        """(the mapped gradient, variable), both of the variable's shape and type. Raises what the
        function raises."""
        grad, var = super().preprocess_gradients(grad, var)
        return self._gradient_mapping_function(grad, var), var


@inner.registered
class MapGradientOptimizerInvertedChaining(_Mapping):
    """The same, but the outermost of several maps first, and gradients of replicas are mapped when
    they are summed."""

    def __init__(self, opt, gradient_mapping_function,
                 name="MapGradientOptimizerInvertedChaining"):
        super().__init__(opt, gradient_mapping_function, name)

    def _apply_mapped(self, grads_and_vars, experimental_aggregate_gradients=True, **kwargs):
        grads_and_vars = [(ipu_wrappers.dense(grad), var) for grad, var in grads_and_vars
                          if grad is not None]
        grads_and_vars, aggregates = self._aggregated(
            grads_and_vars, experimental_aggregate_gradients)
        return super()._apply_mapped(
            [(self._gradient_mapping_function(grad, var), var) for grad, var in grads_and_vars],
            experimental_aggregate_gradients=aggregates, **kwargs)

    def _resource_apply_dense(self, grad, handle, apply_state=None):
        return super()._resource_apply_dense(
            self._gradient_mapping_function(grad, handle), handle, apply_state)
