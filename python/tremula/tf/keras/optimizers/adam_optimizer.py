"""Adam with types of their own for the moments."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import ipu_optimizer_base


@inner.registered
class AdamIpuOptimizer(ipu_optimizer_base.IpuOptimizerBase):
    """Adam, or AMSGrad.

    m_dtype, v_dtype, vhat_dtype   of the moments; the variables' by default
    debiasing                      whether the moments are corrected for their zeros at the start

    w -= rate * m' / (sqrt(v') + epsilon), m' and v' the corrected moments. Other arguments as
    Keras' Adam's and IpuOptimizerBase's.
    """

    _label = "Adam"

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False,
                 name="Adam", m_dtype=None, v_dtype=None, vhat_dtype=None, debiasing=True,
                 **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon or inner.public("backend").epsilon()
        self.amsgrad = amsgrad
        self.debiasing = debiasing
        self.m_dtype, self.v_dtype, self.vhat_dtype = m_dtype, v_dtype, vhat_dtype

    def get_slot_dtype(self, var, slot_name):
        """The type that was given for the slot, or the variable's."""
        return getattr(self, f"{slot_name}_dtype") or var.dtype

    def _slots_of(self, var):
        return ["m", "v", "vhat"] if self.amsgrad else ["m", "v"]

    def _scalars(self, rate):
        dtype = self.opt_dtypes[0]
        return {"rate": rate, "beta_1": self._get_hyper("beta_1", dtype),
                "beta_2": self._get_hyper("beta_2", dtype),
                "step": tf.cast(self.iterations + 1, dtype)}

    def _moments(self, grad, slots, scalars):
        """(m, v, m', v') in the first type."""
        dtype = self.opt_dtypes[0]
        grad = tf.cast(grad, dtype)
        beta_1, beta_2 = scalars["beta_1"], scalars["beta_2"]
        m = beta_1 * tf.cast(slots[0], dtype) + (1 - beta_1) * grad
        v = beta_2 * tf.cast(slots[1], dtype) + (1 - beta_2) * tf.square(grad)
        if not self.debiasing:
            return m, v, m, v
        return (m, v, m / (1 - tf.pow(beta_1, scalars["step"])),
                v / (1 - tf.pow(beta_2, scalars["step"])))

    def _step(self, var, value, grad, slots, scalars):
        dtype = self.opt_dtypes[0]
        m, v, m_now, v_now = self._moments(grad, slots, scalars)
        new_slots = [m, v]
        if self.amsgrad:
            v_now = tf.maximum(tf.cast(slots[2], dtype), v_now)
            new_slots.append(v_now)
        change = scalars["rate"] * m_now / (tf.sqrt(v_now) + tf.cast(self.epsilon, dtype))
        return -change, new_slots

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(),
                "learning_rate": self._serialize_hyperparameter("learning_rate"),
                "decay": self._initial_decay,
                "beta_1": self._serialize_hyperparameter("beta_1"),
                "beta_2": self._serialize_hyperparameter("beta_2"),
                "epsilon": self.epsilon, "amsgrad": self.amsgrad, "debiasing": self.debiasing,
                **{name: ipu_optimizer_base.dtype_name(getattr(self, name))
                   for name in ("m_dtype", "v_dtype", "vhat_dtype")}}
