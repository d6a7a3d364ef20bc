"""LAMB with types of their own for the moments."""

import re

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.optimizers import adam_optimizer, ipu_optimizer_base


@inner.registered
class LAMBIpuOptimizer(ipu_optimizer_base.IpuOptimizerBase):
    """LAMB: Adam's step u plus decay, scaled by |w| / |u| of each variable.

    weight_decay_rate              of the variables that exclude_from_weight_decay does not name
    exclude_from_weight_decay, exclude_from_layer_adaptation
                                   regular expressions, searched in the names of variables
    debiasing                      whether the moments are corrected for their zeros at the start
    m_dtype, v_dtype               of the moments; the variables' by default
    weight_norm_clip               the largest |w| that counts, or None
    optimizer_compute_precisions   two types: of u and of the last product

    Raises ValueError for another number of types. Other arguments as IpuOptimizerBase's.
    """

    _label = "LAMB"

    def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 weight_decay_rate=0.0, exclude_from_weight_decay=None,
                 exclude_from_layer_adaptation=None, name="LAMB", debiasing=True, m_dtype=None,
                 v_dtype=None, weight_norm_clip=None,
                 optimizer_compute_precisions=(tf.float32, tf.float32), **kwargs):
        if len(optimizer_compute_precisions) != 2:
            raise ValueError("Must provide a list of two elements for the optimizer compute "
                             "precision. The final stage of the weight update can be done in a "
                             "different precision to the initial stage.")
        super().__init__(name, optimizer_compute_precisions, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self._set_hyper("weight_decay_rate", weight_decay_rate)
        self.epsilon = epsilon or inner.public("backend").epsilon()
        self.exclude_from_weight_decay = exclude_from_weight_decay
        self.exclude_from_layer_adaptation = exclude_from_layer_adaptation
        self.debiasing = debiasing
        self.weight_norm_clip = weight_norm_clip
        self.m_dtype, self.v_dtype = m_dtype, v_dtype
        self._decays = bool(weight_decay_rate) or not isinstance(weight_decay_rate, (int, float))

    get_slot_dtype = adam_optimizer.AdamIpuOptimizer.get_slot_dtype
    _moments = adam_optimizer.AdamIpuOptimizer._moments

    def _slots_of(self, var):
        return ["m", "v"]

    def _scalars(self, rate):
        dtype = self.opt_dtypes[0]
        return {"rate": rate,
                "step": tf.cast(self.iterations + 1, dtype),
                **{name: self._get_hyper(name, dtype)
                   for name in ("beta_1", "beta_2", "weight_decay_rate")}}

    def _do_use_weight_decay(self, name):
        return self._decays and not _is_named(name, self.exclude_from_weight_decay)

    def _do_layer_adaptation(self, name):
        return not _is_named(name, self.exclude_from_layer_adaptation)

    def _step(self, var, value, grad, slots, scalars):
        first, second = self.opt_dtypes
        m, v, m_now, v_now = self._moments(grad, slots, scalars)
        wide = tf.cast(value, first)
        update = m_now / (tf.sqrt(v_now) + tf.cast(self.epsilon, first))
        name = var.name.split(":")[0]
        if self._do_use_weight_decay(name):
            update += scalars["weight_decay_rate"] * wide
        ratio = tf.constant(1.0, first)
        if self._do_layer_adaptation(name):
            norm, update_norm = tf.norm(wide), tf.norm(update)
            if self.weight_norm_clip:
                norm = tf.minimum(norm, tf.cast(self.weight_norm_clip, first))
            both = tf.logical_and(norm > 0, update_norm > 0)
            ratio = tf.where(both, norm / tf.where(both, update_norm, tf.ones_like(update_norm)),
                             ratio)
        change = tf.cast(ratio * scalars["rate"], second) * tf.cast(update, second)
        return -change, [m, v]

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "decay": self._initial_decay,
                **{name: self._serialize_hyperparameter(name)
                   for name in ("learning_rate", "beta_1", "beta_2", "weight_decay_rate")},
                **{name: getattr(self, name)
                   for name in ("epsilon", "exclude_from_weight_decay",
                                "exclude_from_layer_adaptation", "debiasing",
                                "weight_norm_clip")},
                **{name: ipu_optimizer_base.dtype_name(getattr(self, name))
                   for name in ("m_dtype", "v_dtype")}}


def _is_named(name, patterns):
    return any(re.search(one, name) is not None for one in patterns or ())
