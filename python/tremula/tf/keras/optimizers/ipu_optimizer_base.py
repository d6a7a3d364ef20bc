"""The base of optimizers whose slots and arithmetic have types of their own."""

import tensorflow as tf

from tremula.tf.ipu.ops import functional_ops
from tremula.tf.inner import keras as inner


class IpuOptimizerBase(inner.legacy_optimizer()):
    """An optimizer of Keras (of the kind with slots) for the IPU.

    optimizer_compute_precisions    the types that a step is computed in
    outline_apply_gradients         whether the steps of all variables share their code
    outline_apply_gradients_kwargs  arguments of ipu.outlined_function, a dict

    A subclass gives the names of its slots and computes steps.
    """

    _label = ""  # of messages

    def __init__(self, name, optimizer_compute_precisions=(tf.float32,),
                 outline_apply_gradients=False, outline_apply_gradients_kwargs=None, **kwargs):
        super().__init__(name, **kwargs)
        self.opt_dtypes = tuple(tf.as_dtype(one) for one in optimizer_compute_precisions)
        self.outline_apply_gradients = outline_apply_gradients
        self.outline_apply_gradients_kwargs = outline_apply_gradients_kwargs or {}

    def get_slot_dtype(self, var, slot_name):
        """The type of a slot, by default the variable's."""
        del slot_name
        return var.dtype

    def add_slot(self, var, slot_name, initializer="zeros", shape=None, dtype=None):
        """A new slot of a variable, of the type `dtype` or get_slot_dtype()'s."""
        dtype = tf.as_dtype(dtype or self.get_slot_dtype(var, slot_name)).base_dtype

        def create(next_creator, **kwargs):
            value = kwargs["initial_value"]

            def initial_value():
                made = value() if callable(value) else value
                return tf.cast(getattr(made, "wrapped_value", made), dtype)

            return next_creator(**{**kwargs, "initial_value": initial_value, "dtype": dtype})

        if dtype == var.dtype.base_dtype:
            return super().add_slot(var, slot_name, initializer, shape)
        with tf.variable_creator_scope(create):
            return super().add_slot(var, slot_name, initializer, shape)

    def add_slot_with_dtype(self, var, slot_name, dtype, initializer="zeros"):
        """A new slot of a variable, of the type `dtype` or, if that is None, the variable's."""
        return self.add_slot(var, slot_name, initializer, dtype=dtype or var.dtype)

    def _slots_of(self, var):
        """The names of a variable's slots, in the order in which _step() takes them."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def _step(self, var, value, grad, slots, scalars):
        """(the change of the variable `var`, the new values of its slots) from tensors: the
        variable's value, the gradient, the slots' values, and the results of _scalars()."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def _scalars(self, rate):
        """Further tensors for a step, a dict. `rate` is the learning rate in the first type."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def _create_slots(self, var_list):
        for var in var_list:
            for name in self._slots_of(var):
                self.add_slot(var, name)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        place = var.device, var.dtype.base_dtype
        # A schedule is called once for all variables of a type, because it may enqueue its results.
        rate = ((apply_state or {}).get(place) or self._fallback_apply_state(*place))["lr_t"]
        slots = [self.get_slot(var, name) for name in self._slots_of(var)]

        def step(value, grad, *rest):
            values, scalars = rest[:len(slots)], dict(zip(names, rest[len(slots):]))
            change, new_slots = self._step(var, value, grad, values, scalars)
            return [value + tf.cast(change, value.dtype), *(tf.cast(one, slot.dtype)
                                                            for one, slot in zip(new_slots, slots))]

        scalars = self._scalars(tf.cast(rate, self.opt_dtypes[0]))
        names = list(scalars)
        if self.outline_apply_gradients:
            step = functional_ops.outlined_function(step, **self.outline_apply_gradients_kwargs)
        new, *new_slots = step(tf.convert_to_tensor(var), grad,
                               *(tf.convert_to_tensor(slot) for slot in slots),
                               *scalars.values())
        assigned = [slot.assign(one) for slot, one in zip(slots, new_slots)]
        return tf.group(var.assign(new), *assigned)

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        raise NotImplementedError("_resource_apply_sparse is not implemented for the IPU Addons "
                                  f"{self._label} optimizer.")

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(),
                "optimizer_compute_precisions": [one.name for one in self.opt_dtypes],
                "outline_apply_gradients": self.outline_apply_gradients,
                "outline_apply_gradients_kwargs": self.outline_apply_gradients_kwargs}


def dtype_name(dtype):
    """The name of a type, or None."""
    return None if dtype is None else tf.as_dtype(dtype).name
