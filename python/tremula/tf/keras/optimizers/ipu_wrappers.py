"""The base of the optimizers around an optimizer of SDK 2.5 and earlier."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import optimizer_v2_wrapper


@inner.registered
class IpuOptimizer(optimizer_v2_wrapper._OptimizerV2Wrapper):
    """Passes everything on to the optimizer `opt`. preprocess_gradients() is for subclasses: it
    maps (gradient, variable) pairs before they are applied, and after the one of the optimizer
    inside."""

    def preprocess_gradients(self, grad, var):
        """(gradient, variable), as the optimizer inside maps them: a gradient of the variable's
        shape and type, or a tf.IndexedSlices. Raises what that optimizer raises."""
        inside = getattr(self._opt, "preprocess_gradients", None)
        return inside(grad, var) if inside is not None else (grad, var)

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True,
                        **kwargs):
        """Applies the results of preprocess_gradients(): of pairs of a gradient, which has its
        variable's shape and type, is a tf.IndexedSlices or None, and the variable. Raises
        ValueError, as the optimizer inside does, if all gradients are None."""
        mapped = [self.preprocess_gradients(grad, var) if grad is not None else (grad, var)
                  for grad, var in grads_and_vars]
        return self._apply_mapped(
            mapped, name=name, experimental_aggregate_gradients=experimental_aggregate_gradients,
            **kwargs)

    def _apply_mapped(self, grads_and_vars, **kwargs):
        """Applies results of preprocess_gradients(), which called that of an IpuOptimizer inside
        too."""
        if isinstance(self._opt, IpuOptimizer):
            return self._opt._apply_mapped(grads_and_vars, **kwargs)
        return super().apply_gradients(grads_and_vars, **kwargs)


def dense(grad):
    """A gradient as a tensor."""
    return tf.convert_to_tensor(grad)
