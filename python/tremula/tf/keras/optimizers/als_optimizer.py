"""Automatic loss scaling."""

import contextlib
import math

import tensorflow as tf

from tremula.tf.ipu.ops import _captured_gradients, statistics_ops
from tremula.tf.ipu.optimizers import loss_scaling
from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import gradient_accumulation_optimizer, optimizer_v2_wrapper

_Wrapper = optimizer_v2_wrapper._OptimizerV2Wrapper


class ALSDefaults:
    """The defaults of ALSOptimizer's arguments."""
    initial_loss_scaling_factor = 1
    update_frequency = 8
    increase_factor = 2
    max_loss_scaling_factor = 32768
    accumulate_statistics_over_update_period = True
    ratio_threshold = 10e-6
    captured_grads_only = False
    lpf_alpha = 0.0
    histogram_bin_edge = 2 ** 13


_ARGUMENTS = ("initial_loss_scaling_factor", "update_frequency", "increase_factor",
              "max_loss_scaling_factor", "accumulate_statistics_over_update_period",
              "ratio_threshold", "captured_grads_only", "lpf_alpha", "histogram_bin_edge")


def _read_only(name, read):
    def refuse(self, value):
        raise ValueError(f"{name} is a read only property.")
    return property(read, refuse)


def _is_power_of_two(number):
    return number >= 1 and math.frexp(number)[0] == 0.5


@inner.registered
class ALSOptimizer(_Wrapper):
    """Scales the loss by a factor that follows the gradients of type float16: it grows while they
    are small, and shrinks when too many are large.

    opt                          the optimizer that applies the gradients, with the factor removed
    initial_loss_scaling_factor  a power of two
    update_frequency             steps between changes of the factor
    increase_factor              a power of two: the factor is multiplied or divided by it
    max_loss_scaling_factor      a power of two that the factor stays below
    accumulate_statistics_over_update_period
                                 whether the gradients of all steps count, or those of the last one
    ratio_threshold              the share of large gradients above which the factor shrinks
    captured_grads_only          whether only gradients that layers have captured count
    lpf_alpha                    0 to 1: how much of the old statistics is kept by a change
    histogram_bin_edge           the magnitude from which on a gradient is large

    Raises ValueError for other values.
    """

    def __init__(self, opt, initial_loss_scaling_factor=ALSDefaults.initial_loss_scaling_factor,
                 update_frequency=ALSDefaults.update_frequency,
                 increase_factor=ALSDefaults.increase_factor,
                 max_loss_scaling_factor=ALSDefaults.max_loss_scaling_factor,
                 accumulate_statistics_over_update_period=ALSDefaults
                 .accumulate_statistics_over_update_period,
                 ratio_threshold=ALSDefaults.ratio_threshold,
                 captured_grads_only=ALSDefaults.captured_grads_only,
                 lpf_alpha=ALSDefaults.lpf_alpha,
                 histogram_bin_edge=ALSDefaults.histogram_bin_edge, name="ALSOptimizer"):
        super().__init__(opt, name)
        self._settings = {}
        self.update_frequency = update_frequency
        self.increase_factor = increase_factor
        self.max_loss_scaling_factor = max_loss_scaling_factor
        self.ratio_threshold = ratio_threshold
        self.initial_loss_scaling_factor = initial_loss_scaling_factor
        self.accumulate_statistics_over_update_period = accumulate_statistics_over_update_period
        self.captured_grads_only = captured_grads_only
        self.lpf_alpha = lpf_alpha
        self.histogram_bin_edge = histogram_bin_edge
        constant = inner.public("initializers").Constant
        for attribute, name_, shape, dtype, value in (
                ("_hist", "gradient_histogram", (2,), tf.float32, 0),
                ("_n", "lsf_update_counter", (), tf.int32, self._first_count),
                ("_lsf", "loss_scaling_factor", (), tf.float32, initial_loss_scaling_factor),
                ("_prev_lsf", "prev_loss_scaling_factor", (), tf.float32,
                 initial_loss_scaling_factor)):
            setattr(self, attribute, self.add_weight(
                name_, shape, dtype, initializer=constant(value), trainable=False))

    # ---- Settings ----

    _accepts_any_factor = False
    _first_count = 0  # steps that count as done at the start, and after a change of the factor

    def _set(self, name, value):
        """Changes a setting. Programs that are traced later see it."""
        self._settings[name] = value

    def _changed(self, name, value):
        """The same for a setting whose change begins the statistics again."""
        if name in self._settings and self._settings[name] != value:
            self.reset()
        self._set(name, value)

    @property
    def update_frequency(self):
        """Steps between changes of the factor."""
        return self._settings["update_frequency"]

    @update_frequency.setter
    def update_frequency(self, value):
        if value <= 0:
            raise ValueError("update_frequency must be nonzero and positive")
        self._set("update_frequency", value)

    @property
    def increase_factor(self):
        """The factor is multiplied or divided by this."""
        return self._settings["increase_factor"]

    @increase_factor.setter
    def increase_factor(self, value):
        self._check_increase_factor(value)
        self._set("increase_factor", value)

    def _check_increase_factor(self, value):
        if not _is_power_of_two(value):
            raise ValueError("increase_factor must be a power of two")

    @property
    def max_loss_scaling_factor(self):
        """The factor stays below this."""
        return self._settings["max_loss_scaling_factor"]

    @max_loss_scaling_factor.setter
    def max_loss_scaling_factor(self, value):
        if not self._accepts_any_factor and not _is_power_of_two(value):
            raise ValueError("max_loss_scaling_factor must be a power of two")
        if value >= self._settings.get("max_loss_scaling_factor", math.inf):
            raise ValueError("initial_loss_scaling_factor must be less than "
                             "max_loss_scaling_factor")
        self._set("max_loss_scaling_factor", value)

    @property
    def initial_loss_scaling_factor(self):
        """The factor at the start."""
        return self._settings["initial_loss_scaling_factor"]

    @initial_loss_scaling_factor.setter
    def initial_loss_scaling_factor(self, value):
        if not self._accepts_any_factor and not _is_power_of_two(value):
            raise ValueError("initial_loss_scaling_factor must be a power of two")
        if value >= self.max_loss_scaling_factor:
            raise ValueError("initial_loss_scaling_factor must be less than "
                             "max_loss_scaling_factor")
        if value * self.increase_factor >= self.max_loss_scaling_factor:
            raise ValueError("initial_loss_scaling_factor x increase_factor must be less than "
                             "max_loss_scaling_factor")
        self._set("initial_loss_scaling_factor", value)

    @property
    def ratio_threshold(self):
        """The share of large gradients above which the factor shrinks."""
        return self._settings["ratio_threshold"]

    @ratio_threshold.setter
    def ratio_threshold(self, value):
        if not 0 < value < 1:
            raise ValueError("ratio_threshold must be greater than zero and less than one")
        self._set("ratio_threshold", value)

    accumulate_statistics_over_update_period = property(
        lambda self: self._settings["accumulate_statistics_over_update_period"],
        lambda self, value: self._set("accumulate_statistics_over_update_period", value))
    captured_grads_only, lpf_alpha, histogram_bin_edge = (
        property(lambda self, key=key: self._settings[key],
                 lambda self, value, key=key: self._changed(key, value))
        for key in ("captured_grads_only", "lpf_alpha", "histogram_bin_edge"))

    supports_captured_grads = True  # apply_gradients() takes `captured_grads`

    # ---- State ----

    histogram = _read_only("histogram", lambda self: tf.convert_to_tensor(self._hist))
    normalized_histogram = _read_only(
        "normalized_histogram", lambda self: statistics_ops.histogram_normalize(self.histogram))
    loss_scaling_factor = _read_only(
        "loss_scaling_factor", lambda self: tf.convert_to_tensor(self._lsf))
    previous_loss_scaling_factor = _read_only(
        "previous_loss_scaling_factor", lambda self: tf.convert_to_tensor(self._prev_lsf))
    update_counter = _read_only("update_counter", lambda self: tf.convert_to_tensor(self._n))
    clip_levels = _read_only(
        "clip_levels", lambda self: tf.constant([self.histogram_bin_edge], tf.float32))
    decrease_factor = _read_only("decrease_factor", lambda self: 1.0 / self.increase_factor)

    def reset(self):
        """Begins again: with no statistics and the first factor."""
        self._hist.assign(tf.zeros_like(self._hist))
        self._n.assign(self._first_count)
        self._lsf.assign(float(self.initial_loss_scaling_factor))

    def get_name(self):
        """The optimizer's name."""
        return self._name

    # ---- Gradients ----

    def get_scaled_loss(self, loss):
        """A scalar loss, float32 or float16, times the factor, in its type. Raises AttributeError
        for what is no tensor."""
        return tf.cast(self._lsf, loss.dtype) * loss

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        if callable(loss):
            return super()._compute_gradients(
                lambda: self.get_scaled_loss(loss()), var_list, grad_loss, tape)
        with tape or contextlib.nullcontext():
            scaled = self.get_scaled_loss(loss)
        return super()._compute_gradients(scaled, var_list, grad_loss, tape)

    def get_gradients(self, loss, params):
        """The gradients of the scaled loss, each of its variable's shape and type. Raises
        ValueError if one is None."""
        return super().get_gradients(self.get_scaled_loss(loss), params)

    def apply_gradients(self, grads_and_vars, captured_grads=None, global_step=None, name=None,
                        experimental_aggregate_gradients=True):
        """Divides gradients of a scaled loss by the factor, and applies them with the optimizer
        inside. A gradient has its variable's shape and type, or is None.

        captured_grads  {tag: gradient or list of gradients} that layers have captured, or None
        global_step     a variable that counts the steps, or None

        Raises ValueError if the optimizer inside wants the factor and this one does not give it.
        """
        grads_and_vars, more = self._unscaled(grads_and_vars, captured_grads)
        applied = super().apply_gradients(
            grads_and_vars, name=name,
            experimental_aggregate_gradients=experimental_aggregate_gradients, **more)
        if global_step is not None:
            global_step.assign_add(1)
        return applied

    _gives_factors = False  # to an optimizer inside that _takes_factors

    def _unscaled(self, grads_and_vars, captured_grads, is_last=True):
        """Counts gradients and changes the factor, if it is time and an update of the weights ends
        with them (`is_last`, a bool or a scalar). Returns the gradients without the factor, and
        the captured ones as further arguments for an optimizer inside that takes them."""
        is_unscaled_inside = getattr(self._opt, "_takes_factors", False)
        if is_unscaled_inside and not self._gives_factors:
            raise ValueError("ALSOptimizer has been used to wrap an instance of "
                             "_ParameterUnscalingOptimizer, but is not itself an instance of "
                             "_ParameterUnscalingALSOptimizer.")
        grads_and_vars = [(grad, var) for grad, var in grads_and_vars if grad is not None]
        grads_and_vars = [(tf.convert_to_tensor(grad), var) for grad, var in grads_and_vars]
        state = [self._hist, self._lsf, self._prev_lsf, self._n]
        values = [tf.convert_to_tensor(one) for one in state]
        rule = loss_scaling.Rule(
            int(self.update_frequency), self.increase_factor, self.decrease_factor,
            self.max_loss_scaling_factor, self.ratio_threshold,
            self.accumulate_statistics_over_update_period, self.histogram_bin_edge,
            self.captured_grads_only, self.lpf_alpha, self._first_count)
        new = rule.step(*values, [grad for grad, _ in grads_and_vars],
                        tf.nest.flatten(list((captured_grads or {}).values())), is_last)
        for variable, value in zip(state, new):
            variable.assign(value)
        if is_unscaled_inside:
            self._opt._set_factors(self._lsf, self._prev_lsf)
            return grads_and_vars, {}

        def unscaled(grad):
            return grad / tf.cast(values[1], grad.dtype)

        more = {"captured_grads": tf.nest.map_structure(unscaled, captured_grads)} if (
            captured_grads and _captured_gradients.are_taken_by(self._opt)) else {}
        return [(unscaled(grad), var) for grad, var in grads_and_vars], more

    # ---- Configuration ----

    def get_config(self):
        """The constructor's arguments, without lpf_alpha, as in the original."""
        return {**super().get_config(),
                **{name: getattr(self, name) for name in _ARGUMENTS if name != "lpf_alpha"}}


@inner.registered
class ALSGradientAccumulationOptimizer(
        gradient_accumulation_optimizer.GradientAccumulationOptimizer):
    """Adds up the gradients of several mini-batches of an ALSOptimizer, without the factor, and
    applies them then. The factor changes with updates of the weights, which `update_frequency`
    counts. Arguments as GradientAccumulationOptimizer's.

    Raises ValueError for another optimizer.
    """

    def __init__(self, als_optimizer, num_mini_batches, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, dtype=None,
                 reduction_method=gradient_accumulation_optimizer._Method.SUM,
                 name="ALSGradientAccumulationOptimizer"):
        if not isinstance(als_optimizer, ALSOptimizer):
            raise ValueError("ALSGradientAccumulationOptimizer can only be used with instances of "
                             "ALSOptimizer.")
        super().__init__(als_optimizer, num_mini_batches, offload_weight_update_variables,
                         replicated_optimizer_state_sharding, dtype, reduction_method, name)

    @property
    def als_optimizer(self):
        """The ALSOptimizer."""
        return self._opt

    def get_scaled_loss(self, loss):
        """The loss times the factor. As ALSOptimizer.get_scaled_loss()."""
        return self._opt.get_scaled_loss(loss)

    def reset(self):
        """Begins the statistics again."""
        self._opt.reset()

    def apply_gradients(self, grads_and_vars, captured_grads=None, name=None,
                        experimental_aggregate_gradients=True):
        """Adds up the gradients of every call. Each `num_mini_batches`th call applies the sum. As
        ALSOptimizer.apply_gradients() for the rest."""
        return super().apply_gradients(grads_and_vars, name, experimental_aggregate_gradients,
                                       captured_grads=captured_grads)

    def _of_mini_batch(self, grads_and_vars, kwargs):
        grads_and_vars, more = self._opt._unscaled(
            grads_and_vars, kwargs.pop("captured_grads"), self._is_last())
        kwargs.update(more)
        return grads_and_vars

    def _apply(self, grads_and_vars, **kwargs):
        _Wrapper.apply_gradients(self._opt, grads_and_vars, **kwargs)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of a configuration."""
        inside = inner.saved_class(config.get("inner_optimizer_type", ALSOptimizer),
                                   "optimizers.legacy")
        if isinstance(inside, type) and not issubclass(inside, ALSOptimizer):
            raise ValueError("ALSGradientAccumulationOptimizer.from_config can only be used with "
                             "configurations that have ALSOptimizer as the specified inner_type.")
        opt, config = cls._inner_of(config)
        return cls(opt, **config)


for _name in ("histogram", "normalized_histogram", "loss_scaling_factor",
              "previous_loss_scaling_factor", "update_counter", "decrease_factor",
              *_ARGUMENTS):
    setattr(ALSGradientAccumulationOptimizer, _name,
            property(lambda self, key=_name: getattr(self._opt, key)))

ALSOptimizerGradientAccumulationWrapper = ALSGradientAccumulationOptimizer
