"""The base of optimizers that take scaled gradients, and carry the loss's factor in their steps."""

import tensorflow as tf

from tremula.tf.keras.optimizers import als_optimizer


class _ParameterUnscalingOptimizer:
    """Gives a step the loss's factor and the one before it. Raises ValueError unless the factor is
    a power of two, 1 or more."""

    _takes_factors = True

    def __init__(self, loss_scale_factor):
        if not loss_scale_factor >= 1:
            raise ValueError("loss_scale_factor must be greater than or equal to one.")
        if not als_optimizer._is_power_of_two(loss_scale_factor):
            raise ValueError("loss_scale_factor must be a power of two.")
        self._lsf = self._prev_lsf = float(loss_scale_factor)

    def _set_factors(self, factor, before):
        """Takes the variables of the ALSOptimizer around it."""
        object.__setattr__(self, "_lsf", factor)
        object.__setattr__(self, "_prev_lsf", before)

    def _factors(self):
        """(factor, the one before), float32 tensors."""
        return (tf.convert_to_tensor(self._lsf, tf.float32),
                tf.convert_to_tensor(self._prev_lsf, tf.float32))

    def _wide_hyper(self, name):
        return tf.cast(self._get_hyper(name), tf.float32)


def wide(*tensors):
    """Tensors and variables in float32."""
    return [tf.cast(one, tf.float32) for one in tensors]


def assign(variable, value):
    """Sets a variable to a float32 tensor."""
    return variable.assign(tf.cast(value, variable.dtype))


class _ParameterUnscalingALSOptimizer(als_optimizer.ALSOptimizer):
    """An ALSOptimizer around such an optimizer. Raises ValueError for another."""

    _gives_factors = True

    def __init__(self, opt, *args, **kwargs):
        if not isinstance(opt, _ParameterUnscalingOptimizer):
            raise ValueError("opt must be an OptimizerV2 specialization derived from "
                             "_ParameterUnscalingOptimizer")
        super().__init__(opt, *args, **kwargs)

    _dropped = ("decay", "name")  # of the configuration of the optimizer inside

    def get_config(self):
        """The constructor's arguments, those of the optimizer inside among them."""
        config = super().get_config()
        del config["inner_optimizer_type"]
        inside = config.pop("inner_optimizer_config")
        return {**config, **{name: value for name, value in inside.items()
                             if name not in self._dropped}}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of a configuration."""
        del custom_objects
        return cls(**config)
