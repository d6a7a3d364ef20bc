"""Automatic loss scaling (`tensorflow.python.ipu.automatic_loss_scaling_optimizer`)."""

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.ipu.optimizers import ipu_optimizer, loss_scaling


class AutomaticLossScalingOptimizer(ipu_optimizer.IpuOptimizer):
    """Scales the loss by a factor that grows while the gradients of type float16 are small, and
    shrinks when too many overflow.

    initial_loss_scaling_factor   a positive number below max_loss_scaling_factor
    update_frequency              steps between changes
    increase_factor, decrease_factor   what the factor is multiplied by
    accumulate_statistics_over_update_period
                                  whether the gradients of all steps count, or of the last one
    ratio_threshold               the fraction of overflowing gradients above which the factor
                                  shrinks

    Raises ValueError for numbers that do not fit.
    """

    def __init__(self, wrapped_optimizer, initial_loss_scaling_factor=1.0, update_frequency=8,
                 increase_factor=2.0, decrease_factor=0.5, max_loss_scaling_factor=32768,
                 accumulate_statistics_over_update_period=True, ratio_threshold=10e-6,
                 name="AutomaticLossScalingOptimizer"):
        super().__init__(wrapped_optimizer, name)
        loss_scaling.check_positive(
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency, increase_factor=increase_factor,
            decrease_factor=decrease_factor)
        loss_scaling.check_factors(increase_factor, decrease_factor, max_loss_scaling_factor)
        if initial_loss_scaling_factor >= max_loss_scaling_factor:
            raise ValueError("initial_loss_scaling_factor must be less than "
                             "max_loss_scaling_factor")
        if not 0 < ratio_threshold < 1:
            raise ValueError("ratio_threshold must be greater than zero and less than one")
        self._rule = loss_scaling.Rule(
            int(update_frequency), increase_factor, decrease_factor, max_loss_scaling_factor,
            ratio_threshold, accumulate_statistics_over_update_period, first=1)
        self._initial, self._state = float(initial_loss_scaling_factor), None

    def _variables(self):
        """The bins, the factor, the factor before it, and the steps: variables."""
        if self._state is None:
            # Values of NumPy: the loop around takes no tensors of its body for initial ones.
            self._state = [
                tf.get_variable(f"{self._name}/{key}", initializer=value, trainable=False,
                                use_resource=True)
                for key, value in (
                    ("gradient_histogram", np.zeros(2, "float32")),
                    ("loss_scaling_factor", np.float32(self._initial)),
                    ("prev_loss_scaling_factor", np.float32(self._initial)),
                    ("lsf_update_counter", np.int32(self._rule.first)))]
        return self._state

    def compute_gradients(self, loss, var_list=None, **kwargs):
        """Pairs (gradient of the scaled loss, variable). See
        ipu.ipu_optimizer.IpuOptimizer.compute_gradients()."""
        factor = tf.cast(self._variables()[1].read_value(), loss.dtype)
        return super().compute_gradients(loss * factor, var_list, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies the gradients without the factor, and changes the factor. See
        ipu.ipu_optimizer.IpuOptimizer.apply_gradients()."""
        state = self._variables()
        values = [one.read_value() for one in state]
        grads_and_vars = [(one if one is None else tf.convert_to_tensor(one), variable)
                          for one, variable in grads_and_vars]
        new = self._rule.step(*values, [one for one, _ in grads_and_vars if one is not None])
        unscaled = [(one if one is None else one / tf.cast(values[1], one.dtype), variable)
                    for one, variable in grads_and_vars]
        with tf.control_dependencies([one for one, _ in unscaled if one is not None]):
            changed = [variable.assign(value) for variable, value in zip(state, new)]
        return tf.group(super().apply_gradients(unscaled, global_step, name), *changed)
