"""The class that optimizers of the IPU derive from: ipu_optimizer shows it."""

import tensorflow.compat.v1 as tf

from tremula.tf.runtime.base import checks


class IpuOptimizer(tf.train.Optimizer):
    """Hands everything on to the optimizer `opt`, a `tf.train.Optimizer`; subclasses change what
    they are there for."""

    def __init__(self, opt, name=None):
        """Raises TypeError if `opt` is no optimizer of TensorFlow 1."""
        if not isinstance(opt, tf.train.Optimizer):
            raise TypeError(f"{type(self).__name__} wraps a tf.train.Optimizer, not "
                            f"{type(opt).__name__}.")
        checks.text("name", name, optional=True)
        super().__init__(False, name or type(self).__name__)
        self._opt = opt
        self._use_locking = opt._use_locking

    def get_name(self):
        """The name of the optimizer inside."""
        return self._opt.get_name()

    def get_slot(self, *args, **kwargs):
        """A slot of the optimizer inside: get_slot(var, name)."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """The names of the slots of the optimizer inside."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        """The variables of the optimizer inside."""
        return self._opt.variables()

    def compute_gradients(self, loss, var_list=None, **kwargs):
        """A list of (gradient, variable) for a scalar `loss`, as the optimizer inside computes it.

        A gradient has its variable's shape and type, is a tf.IndexedSlices, or is None where the
        loss does not depend on the variable. Raises ValueError if there is no variable.
        """
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies gradients, as the optimizer inside does it.

        `grads_and_vars` are pairs as compute_gradients() gives them: a gradient of its variable's
        shape and type, or None. Raises ValueError if all gradients are None.
        """
        return self._opt.apply_gradients(grads_and_vars, global_step, name)
