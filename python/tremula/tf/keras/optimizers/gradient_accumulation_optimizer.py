"""An optimizer that adds up the gradients of several mini-batches before it applies them."""

import tensorflow as tf

from tremula.tf.ipu import scopes
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer as plain
from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import optimizer_v2_wrapper
from tremula.tf.runtime.tracing import accumulation

_Method = accumulation.GradientAccumulationReductionMethod


@inner.registered
class GradientAccumulationOptimizer(optimizer_v2_wrapper._OptimizerV2Wrapper):
    """The optimizer `opt`, applied in each `num_mini_batches`th call of apply_gradients().

    offload_weight_update_variables, replicated_optimizer_state_sharding   for reports only
    dtype             of the sums: a type, a function of the variable that gives one, or None for
                      the variable's own
    reduction_method  a GradientAccumulationReductionMethod or its name

    The optimizer's steps are counted, not the mini-batches. Raises ValueError for a number below 1.
    """

    def __new__(cls, opt, num_mini_batches, *args, **kwargs):
        if num_mini_batches == 1:
            return opt
        return super().__new__(cls)

    @accumulation.takes_old_positions
    def __init__(self, opt, num_mini_batches, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, dtype=None,
                 reduction_method=_Method.SUM, name="GradientAccumulationOptimizer"):
        if num_mini_batches < 1:
            raise ValueError("num_mini_batches must be >= 1")
        super().__init__(opt, name)
        self._num_mini_batches = num_mini_batches
        self._offload_weight_update_variables = offload_weight_update_variables
        self._replicated_optimizer_state_sharding = replicated_optimizer_state_sharding
        self._dtype = dtype
        self._reduction_method = _Method.parse(reduction_method)
        self._sums, self._count = {}, None

    @staticmethod
    def bool_to_three_state(value, default=None):
        """"THREESTATE_ON" or "THREESTATE_OFF" of a bool, `default` of None."""
        if value is None:
            return default
        return "THREESTATE_ON" if value else "THREESTATE_OFF"

    def _create_sums(self, variables):
        """The sums, and the number of mini-batches in them. They are no weights, so that nothing of
        an unfinished step is saved."""
        with tf.init_scope(), self._distribution_strategy_scope():
            if self._count is None:
                self._count = tf.Variable(0, trainable=False, dtype=tf.int32,
                                          name=f"{self._name}/count")
            for var in variables:
                if var.ref() in self._sums:
                    continue
                dtype = self._dtype(var) if callable(self._dtype) and not isinstance(
                    self._dtype, (type, tf.DType)) else self._dtype
                self._sums[var.ref()] = self._new_sum(var.shape, dtype or var.dtype)

    def _new_sum(self, shape, dtype):
        return tf.Variable(lambda: tf.zeros(shape, dtype), trainable=False, dtype=dtype,
                           name=f"{self._name}/sum")

    def _captured_sums(self, captured):
        """[(gradient, its sum)] for {tag: gradient or list of gradients}, and {tag: its sums}."""
        found, sums = [], {}
        with tf.init_scope(), self._distribution_strategy_scope():
            for tag, gradients in captured.items():
                for number, grad in enumerate(tf.nest.flatten(gradients)):
                    if (tag, number) not in self._sums:
                        self._sums[tag, number] = self._new_sum(grad.shape, grad.dtype)
                    found.append((grad, self._sums[tag, number]))
                    sums.setdefault(tag, []).append(self._sums[tag, number])
        return found, sums

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True,
                        **kwargs):
        """Adds gradients up, and applies the sums after the last ones, with further arguments of
        this last call that the optimizer inside takes. A gradient has the shape and the type of its
        variable, or is None. Raises ValueError if all are None."""
        grads_and_vars = [(tf.convert_to_tensor(grad), var) for grad, var in grads_and_vars
                          if grad is not None]
        variables = [var for _, var in grads_and_vars]
        if not variables:
            raise ValueError("No gradients provided for any variable.")
        with tf.name_scope(name or self._name):
            with tf.init_scope():
                self._create_all_weights(variables)
            self._create_sums(variables)
            grads_and_vars = self._of_mini_batch(grads_and_vars, kwargs)
            grads_and_vars, aggregates = self._aggregated(
                grads_and_vars, experimental_aggregate_gradients)
            return self._accumulate(grads_and_vars, {
                **kwargs, "experimental_aggregate_gradients": aggregates})

    def _is_last(self):
        """Whether this mini-batch is the last of a sum, a scalar."""
        return tf.equal(self._count.read_value() + 1, self._num_mini_batches)

    def _of_mini_batch(self, grads_and_vars, kwargs):
        """The gradients to add up; may change `kwargs`, arguments of apply_gradients()."""
        del kwargs
        return grads_and_vars

    def _apply(self, grads_and_vars, **kwargs):
        """Applies sums."""
        super().apply_gradients(grads_and_vars, **kwargs)

    def _accumulate(self, grads_and_vars, kwargs):
        sums = [self._sums[var.ref()] for _, var in grads_and_vars]
        variables = [var for _, var in grads_and_vars]
        captured, captured_sums = self._captured_sums(kwargs.pop("captured_grads", None) or {})
        before, last = self._count.read_value(), self._is_last()
        for grad, total in [*((grad, total) for (grad, _), total in zip(grads_and_vars, sums)),
                            *captured]:
            self._add(total, grad, before)

        def apply():
            if captured_sums:
                kwargs["captured_grads"] = tf.nest.map_structure(
                    lambda total: total.read_value(), captured_sums)
            with accumulation.applying(self._num_mini_batches), scopes.frontend_attribute(
                    plain.UPDATE_ATTRIBUTE,
                    plain.place_of_state(self._offload_weight_update_variables,
                                         self._replicated_optimizer_state_sharding)):
                self._apply([(tf.cast(total.read_value(), var.dtype), var)
                             for total, var in zip(sums, variables)], **kwargs)
            for total in [*sums, *tf.nest.flatten(captured_sums)]:
                total.assign(tf.zeros_like(total))
            return tf.constant(0)

        with scopes.frontend_attribute(
                accumulation.COUNT_ATTRIBUTE,
                str(accumulation.whole_count(self._num_mini_batches))):
            return self._count.assign(tf.cond(last, apply, lambda: tf.identity(before + 1)))

    def _add(self, total, grad, before):
        grad = tf.cast(grad, total.dtype)
        if self._reduction_method is _Method.SUM:
            return total.assign_add(grad)
        if self._reduction_method is _Method.MEAN:
            return total.assign_add(grad * tf.cast(1.0 / self._num_mini_batches, grad.dtype))
        seen = tf.cast(before, tf.float32)
        share = 1.0 / (seen + 1.0)
        return total.assign(total * tf.cast(seen * share, grad.dtype)
                            + grad * tf.cast(share, grad.dtype))

    def get_config(self):
        """The constructor's arguments."""
        dtype = self._dtype
        if dtype is not None and not callable(dtype):
            dtype = tf.as_dtype(dtype).name
        return {**super().get_config(), "num_mini_batches": self._num_mini_batches,
                "offload_weight_update_variables": self._offload_weight_update_variables,
                "replicated_optimizer_state_sharding": self._replicated_optimizer_state_sharding,
                "dtype": dtype, "reduction_method": self._reduction_method.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of a configuration."""
        if cls is not GradientAccumulationOptimizer:
            raise ValueError(
                "GradientAccumulationOptimizer.from_config can only be used to create a "
                "GradientAccumulationOptimizer instance. If subclassing, the child class must "
                "implement its own from_config method.")
        return super().from_config(config, custom_objects)
