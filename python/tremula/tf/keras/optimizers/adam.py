"""Adam whose steps carry the loss's factor."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import als_optimizer
from tremula.tf.keras.optimizers import parameter_unscaling_optimizer as unscaling

_DEFAULTS = als_optimizer.ALSDefaults


class _ParameterUnscalingAdam(unscaling._ParameterUnscalingOptimizer,
                              inner.module("optimizers.legacy.adam").Adam):
    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7,
                 loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor, **kwargs):
        unscaling._ParameterUnscalingOptimizer.__init__(self, loss_scaling_factor)
        kwargs.pop("amsgrad", None)
        inner.module("optimizers.legacy.adam").Adam.__init__(
            self, learning_rate, beta_1, beta_2, epsilon,
            **{"name": "Adam_HypLSFScale", **kwargs})

    def _resource_apply_dense(self, grad, var, apply_state=None):
        del apply_state
        factor, _ = self._factors()
        rate, step = self._decayed_lr(tf.float32), tf.cast(self.iterations + 1, tf.float32)
        beta_1, beta_2 = self._wide_hyper("beta_1"), self._wide_hyper("beta_2")
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        wide_m, wide_v, wide_var, grad = unscaling.wide(m, v, var, grad)
        new_v = beta_2 * factor * factor * wide_v + (1 - beta_2) * grad * grad
        new_m = beta_1 * factor * wide_m + (1 - beta_1) * grad
        rate = rate * tf.sqrt(1 - tf.pow(beta_2, step)) / (1 - tf.pow(beta_1, step))
        change = rate * new_m / (tf.sqrt(new_v) + self.epsilon * factor)
        return tf.group(unscaling.assign(var, wide_var - change), unscaling.assign(m, new_m),
                        unscaling.assign(v, new_v))


@inner.registered
class ALSOptimizerAdam(unscaling._ParameterUnscalingALSOptimizer):
    """Adam with automatic loss scaling: gradients keep the factor s, and
    m := beta_1 s m + (1 - beta_1) g, v := beta_2 s^2 v + (1 - beta_2) g^2,
    w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon s).
    Arguments as Adam's and ALSOptimizer's."""

    _dropped = ("decay", "name", "amsgrad")

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7,
                 initial_loss_scaling_factor=_DEFAULTS.initial_loss_scaling_factor,
                 *als_arguments, name="ALSOptimizerAdam", **als_options):
        opt = _ParameterUnscalingAdam(learning_rate, beta_1, beta_2, epsilon,
                                      initial_loss_scaling_factor)
        super().__init__(opt, initial_loss_scaling_factor, *als_arguments, name=name,
                         **als_options)
