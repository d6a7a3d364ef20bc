"""`tf.contrib.opt`: optimizers with weight decay, LARS, Nadam and lazy Adam."""

import sys

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below
_FILES = ("lars_optimizer", "lazy_adam_optimizer", "nadam_optimizer", "weight_decay_optimizers")


def __getattr__(name):
    if name in _FILES:
        return sys.modules[__name__]
    raise missing.attribute("opt", name)


class DecoupledWeightDecayExtension:
    """A base beside an optimizer: before each update, variables lose `weight_decay` times
    themselves.

    `weight_decay`: a number or a scalar tensor, not scaled by the learning rate.
    """

    def __init__(self, weight_decay, **kwargs):
        self._weight_decay = weight_decay
        self._decayed = None
        super().__init__(**kwargs)

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=1,
                 aggregation_method=None, colocate_gradients_with_ops=False, name=None,
                 grad_loss=None, decay_var_list=None):
        """Optimizer.minimize() of a scalar `loss`, float32 or float16; `decay_var_list`: the only
        variables that decay (None: all). Raises ValueError if no variable has a gradient."""
        self._decayed = _references(decay_var_list)
        return super().minimize(
            loss, global_step=global_step, var_list=var_list, gate_gradients=gate_gradients,
            aggregation_method=aggregation_method, name=name, grad_loss=grad_loss,
            colocate_gradients_with_ops=colocate_gradients_with_ops)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
        """Optimizer.apply_gradients(), of gradients of their variables' shapes and types;
        `decay_var_list` as in minimize(). Raises ValueError if all gradients are None."""
        if decay_var_list:
            self._decayed = _references(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _decay(self, variable):
        if self._decayed is not None and variable.ref() not in self._decayed:
            return tf.no_op()
        decay = tf.cast(self._weight_decay, variable.dtype.base_dtype)
        return variable.assign_sub(decay * variable, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        with tf.control_dependencies([self._decay(var)]):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, var):
        with tf.control_dependencies([self._decay(var)]):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad, var):
        with tf.control_dependencies([self._decay(var)]):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, var, indices):
        with tf.control_dependencies([self._decay(var)]):
            return super()._resource_apply_sparse(grad, var, indices)


def _references(variables):
    return {one.ref() for one in variables} if variables else None


def extend_with_decoupled_weight_decay(base_optimizer):
    """A class: `base_optimizer` with weight decay, the first argument of its constructor."""
    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The optimizer with weight decay."""

        def __init__(self, weight_decay, *args, **kwargs):
            self._weight_decay = weight_decay
            self._decayed = None
            base_optimizer.__init__(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """Adam with weight decay."""

    def __init__(self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                 use_locking=False, name="AdamW"):
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2,
                         epsilon=epsilon, use_locking=use_locking, name=name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """Momentum with weight decay."""

    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name="MomentumW",
                 use_nesterov=False):
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum,
                         use_locking=use_locking, name=name, use_nesterov=use_nesterov)


class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """Adam that leaves rows alone, and their moments, that a sparse gradient does not have."""

    def _apply_sparse(self, grad, var):
        grad = self._deduplicated(grad.values, grad.indices)
        return self._update_rows(*grad, var)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._update_rows(grad, indices, var)

    @staticmethod
    def _deduplicated(values, indices):
        unique, places = tf.unique(indices)
        return tf.math.unsorted_segment_sum(values, places, tf.shape(unique)[0]), unique

    def _update_rows(self, grad, indices, var):
        dtype = var.dtype.base_dtype
        beta1_power, beta2_power = (tf.cast(one, dtype) for one in self._get_beta_accumulators())
        rate, beta1, beta2, epsilon = (tf.cast(one, dtype) for one in (
            self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t))
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        change = step * new_m / (tf.sqrt(new_v) + epsilon)
        return tf.group(tf.scatter_update(m, indices, new_m), tf.scatter_update(v, indices, new_v),
                        tf.scatter_sub(var, indices, change))


class NadamOptimizer(tf.train.AdamOptimizer):
    """Adam with Nesterov momentum, for dense gradients."""

    def _apply_dense(self, grad, var):
        return self._resource_apply_dense(grad, var)

    def _resource_apply_dense(self, grad, var):
        dtype = var.dtype.base_dtype
        beta1_power, beta2_power = (tf.cast(one, dtype) for one in self._get_beta_accumulators())
        rate, beta1, beta2, epsilon = (tf.cast(one, dtype) for one in (
            self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t))
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = tf.assign(m, beta1 * m + (1 - beta1) * grad)
        new_v = tf.assign(v, beta2 * v + (1 - beta2) * tf.square(grad))
        step = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        ahead = beta1 * new_m + (1 - beta1) * grad
        return tf.assign_sub(var, step * ahead / (tf.sqrt(new_v) + epsilon)).op


class LARSOptimizer(tf.train.Optimizer):
    """Momentum with a learning rate of its own for each variable: its norm over its gradient's,
    as "Large Batch Training of Convolutional Networks" (2017) has it.

    `skip_list`: parts of names of variables whose rate is not changed, and that do not decay.
    """

    def __init__(self, learning_rate, momentum=0.9, weight_decay=0.0001, eeta=0.001, epsilon=0.0,
                 name="LARSOptimizer", skip_list=None, use_nesterov=False):
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be positive: {weight_decay}")
        super().__init__(False, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._eeta = eeta
        self._epsilon = epsilon
        self._skip_list = skip_list or ()
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self):
        rate = self._learning_rate
        self._rate_tensor = tf.convert_to_tensor(rate() if callable(rate) else rate)

    def _apply_dense(self, grad, var):
        return self._resource_apply_dense(grad, var)

    def _resource_apply_dense(self, grad, var):
        rate = tf.cast(self._rate_tensor, var.dtype.base_dtype)
        if not any(part in var.op.name for part in self._skip_list):
            weights, slope = tf.norm(var), tf.norm(grad)
            trust = self._eeta * weights / (slope + self._weight_decay * weights + self._epsilon)
            usable = tf.logical_and(weights > 0, slope > 0)
            rate *= tf.where(usable, trust, tf.ones_like(trust))
            grad += self._weight_decay * var
        slot = self.get_slot(var, "momentum")
        speed = tf.assign(slot, self._momentum * slot + grad)
        change = grad + self._momentum * speed if self._use_nesterov else speed
        return tf.assign_sub(var, rate * change).op
