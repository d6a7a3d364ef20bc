"""Automatic loss scaling, as SDK 2.4 to 2.6 had it."""

from tremula.tf.ipu.optimizers import loss_scaling
from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import als_optimizer

_DEFAULTS = als_optimizer.ALSDefaults


@inner.registered
class AutomaticLossScalingOptimizer(als_optimizer.ALSOptimizer):
    """The forerunner of ALSOptimizer, with a factor of its own for what shrinks.

    Arguments as ALSOptimizer's; the factors need not be powers of two. Raises ValueError for
    factors that do not fit each other.
    """

    def __init__(self, opt, initial_loss_scaling_factor=1.0, update_frequency=8,
                 increase_factor=2.0, decrease_factor=0.5,
                 max_loss_scaling_factor=_DEFAULTS.max_loss_scaling_factor,
                 accumulate_statistics_over_update_period=True,
                 ratio_threshold=_DEFAULTS.ratio_threshold,
                 name="AutomaticLossScalingOptimizer"):
        loss_scaling.check_positive(
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            increase_factor=increase_factor, decrease_factor=decrease_factor)
        loss_scaling.check_factors(increase_factor, decrease_factor, max_loss_scaling_factor)
        self.__dict__["_decrease_factor"] = decrease_factor
        super().__init__(
            opt, initial_loss_scaling_factor, update_frequency, increase_factor,
            max_loss_scaling_factor, accumulate_statistics_over_update_period, ratio_threshold,
            histogram_bin_edge=loss_scaling.FLOAT16_MAX, name=name)

    _accepts_any_factor = True
    _first_count = 1

    @property
    def decrease_factor(self):
        """The factor is multiplied by this when it shrinks."""
        return self._decrease_factor

    @decrease_factor.setter
    def decrease_factor(self, value):
        if value <= 0:
            raise ValueError("decrease_factor must be nonzero and positive")
        if value >= self.increase_factor:
            raise ValueError("decrease_factor must be less than increase_factor")
        self.__dict__["_decrease_factor"] = value

    def _check_increase_factor(self, value):
        if value <= 0:
            raise ValueError("increase_factor must be nonzero and positive")
        if value <= self._decrease_factor:
            raise ValueError("increase_factor must be greater than decrease_factor")

    def get_unscaled_gradients(self, grads):
        """Gradients of a scaled loss without the factor: a tensor, or a structure of tensors, of
        their shapes and types, float32 or float16. Raises AttributeError for None among them."""
        import tensorflow as tf
        factor = self.loss_scaling_factor
        return tf.nest.map_structure(lambda one: one / tf.cast(factor, one.dtype), grads)

    def get_config(self):
        """The constructor's arguments."""
        config = {**super().get_config(), "decrease_factor": self.decrease_factor}
        for name in ("captured_grads_only", "histogram_bin_edge"):
            del config[name]
        return config
