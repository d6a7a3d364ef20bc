"""Stochastic gradient descent with a type of its own for the momentum."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import ipu_optimizer_base


@inner.registered
class SGDIpuOptimizer(ipu_optimizer_base.IpuOptimizerBase):
    """w -= rate * g; with momentum a := momentum * a - rate * g and w += a, or, with nesterov,
    w += momentum * a - rate * g.

    momentum_accum_dtype  of a; the variables' by default

    Other arguments as Keras' SGD's and IpuOptimizerBase's.
    """

    _label = "SGD"

    def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, name="SGD",
                 momentum_accum_dtype=None, **kwargs):
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._momentum = not isinstance(momentum, (int, float)) or momentum > 0
        self._set_hyper("momentum", momentum)
        self.nesterov = nesterov
        self.momentum_accum_dtype = momentum_accum_dtype

    def get_slot_dtype(self, var, slot_name):
        """The type that was given for the momentum, or the variable's."""
        return self.momentum_accum_dtype or var.dtype

    def _slots_of(self, var):
        return ["momentum"] if self._momentum else []

    def _scalars(self, rate):
        return {"rate": rate, "momentum": self._get_hyper("momentum", self.opt_dtypes[0])}

    def _step(self, var, value, grad, slots, scalars):
        dtype = self.opt_dtypes[0]
        change = -scalars["rate"] * tf.cast(grad, dtype)
        if not self._momentum:
            return change, []
        kept = tf.cast(slots[0], dtype) * scalars["momentum"] + change
        return kept * scalars["momentum"] + change if self.nesterov else kept, [kept]

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(),
                "learning_rate": self._serialize_hyperparameter("learning_rate"),
                "decay": self._initial_decay,
                "momentum": self._serialize_hyperparameter("momentum"),
                "nesterov": self.nesterov,
                "momentum_accum_dtype": ipu_optimizer_base.dtype_name(self.momentum_accum_dtype)}
