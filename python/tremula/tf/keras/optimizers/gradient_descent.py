"""Stochastic gradient descent whose steps carry the loss's factor."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import als_optimizer
from tremula.tf.keras.optimizers import parameter_unscaling_optimizer as unscaling

_DEFAULTS = als_optimizer.ALSDefaults


class _ParameterUnscalingSGD(unscaling._ParameterUnscalingOptimizer,
                             inner.module("optimizers.legacy.gradient_descent").SGD):
    def __init__(self, learning_rate=0.01, momentum=0.0,
                 loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor, **kwargs):
        unscaling._ParameterUnscalingOptimizer.__init__(self, loss_scaling_factor)
        kwargs.pop("nesterov", None)
        inner.module("optimizers.legacy.gradient_descent").SGD.__init__(
            self, learning_rate, momentum, **{"name": "SGD_HypLSFScale", **kwargs})

    def _resource_apply_dense(self, grad, var, apply_state=None):
        del apply_state
        factor, before = self._factors()
        rate = self._decayed_lr(tf.float32) / factor
        wide_var, grad = unscaling.wide(var, grad)
        if not self._momentum:
            return unscaling.assign(var, wide_var - rate * grad)
        m = self.get_slot(var, "momentum")
        new_m = self._wide_hyper("momentum") * factor / before * tf.cast(m, tf.float32) + grad
        return tf.group(unscaling.assign(m, new_m),
                        unscaling.assign(var, wide_var - rate * new_m))


@inner.registered
class ALSOptimizerSGD(unscaling._ParameterUnscalingALSOptimizer):
    """Stochastic gradient descent with automatic loss scaling: gradients keep the factor s, and
    m := momentum (s / the factor before) m + g, w -= (rate / s) m.
    Arguments as SGD's and ALSOptimizer's."""

    _dropped = ("decay", "name", "nesterov")

    def __init__(self, learning_rate=0.01, momentum=0.0,
                 initial_loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor,
                 *als_arguments, name="ALSOptimizerSGD", **als_options):
        opt = _ParameterUnscalingSGD(learning_rate, momentum, initial_loss_scaling_factor)
        super().__init__(opt, initial_loss_scaling_factor, *als_arguments, name=name,
                         **als_options)
