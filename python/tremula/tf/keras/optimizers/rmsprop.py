"""RMSprop whose steps carry the loss's factor."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import als_optimizer
from tremula.tf.keras.optimizers import parameter_unscaling_optimizer as unscaling

_DEFAULTS = als_optimizer.ALSDefaults


class _ParameterUnscalingRMSProp(unscaling._ParameterUnscalingOptimizer,
                                 inner.module("optimizers.legacy.rmsprop").RMSprop):
    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False,
                 loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor, **kwargs):
        unscaling._ParameterUnscalingOptimizer.__init__(self, loss_scaling_factor)
        inner.module("optimizers.legacy.rmsprop").RMSprop.__init__(
            self, learning_rate, rho, momentum, epsilon, centered,
            **{"name": "RMSProp_HypLSFScale", **kwargs})

    def _resource_apply_dense(self, grad, var, apply_state=None):
        del apply_state
        factor, before = self._factors()
        rate, rho, mu = self._decayed_lr(tf.float32), *map(self._wide_hyper, ("rho", "momentum"))
        v = self.get_slot(var, "rms")
        wide_v, wide_var, grad = unscaling.wide(v, var, grad)
        new_v = tf.square(factor / before) * rho * wide_v + (1 - rho) * grad * grad
        under_root, updates = new_v + self.epsilon * factor * factor, []
        # As in the original: only a centered one with momentum keeps its averages.
        if self._momentum and self.centered:
            h = self.get_slot(var, "mg")
            new_h = rho * factor / before * tf.cast(h, tf.float32) + (1 - rho) * grad
            under_root += new_h * new_h
            updates += [unscaling.assign(h, new_h), unscaling.assign(v, new_v)]
        change = grad / tf.sqrt(under_root)
        if self._momentum:
            m = self.get_slot(var, "momentum")
            change += mu * tf.cast(m, tf.float32)
            updates.append(unscaling.assign(m, change))
        return tf.group(unscaling.assign(var, wide_var - rate * change), *updates)


@inner.registered
class ALSOptimizerRMSProp(unscaling._ParameterUnscalingALSOptimizer):
    """RMSprop with automatic loss scaling: gradients keep the factor s, and with p, the factor
    before, v' := (s / p)^2 rho v + (1 - rho) g^2, m := momentum m + g / sqrt(v' + epsilon s^2),
    w -= rate m. Centered and with momentum, the square of h := rho (s / p) h + (1 - rho) g is added
    under the root, and v and h are kept. Arguments as RMSprop's and ALSOptimizer's."""

    def __init__(self, learning_rate=0.001, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False,
                 initial_loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor,
                 *als_arguments, name="ALSOptimizerRMSProp", **als_options):
        opt = _ParameterUnscalingRMSProp(learning_rate, rho, momentum, epsilon, centered,
                                         initial_loss_scaling_factor)
        super().__init__(opt, initial_loss_scaling_factor, *als_arguments, name=name,
                         **als_options)
