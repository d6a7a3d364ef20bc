"""Dropout whose mask is drawn again from its seed instead of stored."""

import tensorflow as tf

from tremula.tf.ipu.ops import rand_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class Dropout(ipu_layer.IPULayer):
    """rand_ops.dropout() of its inputs in training, else the inputs.

    rate           the fraction that is set to zero
    noise_shape    as rand_ops.dropout()'s
    seed           one or two 32-bit integers: every execution drops the same elements. None: each
                   execution drops others
    seed_modifier  an int that changes the seed, as SDK 1.2 had
    ref            is not used
    """

    def __init__(self, rate=0.5, noise_shape=None, seed=None, seed_modifier=1, **kwargs):
        self.ref = kwargs.pop("ref", True)
        super().__init__(**kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed
        self.seed_modifier = seed_modifier
        self.supports_masking = True

    def build(self, input_shape):
        """Makes no weights."""
        self.built = True

    def call(self, inputs, training=None):
        """The inputs, float16 or float32 of any shape, with or without dropout: a tensor like them.
        In training it raises what rand_ops.dropout() does: ValueError for a rate that is out of
        range."""
        return inner.choose(inner.is_training(training), lambda: self._drop(inputs),
                            lambda: tf.identity(inputs))

    def _drop(self, inputs):
        seed = self.seed
        if seed is not None and not tf.is_tensor(seed):
            seed = tf.constant([seed, seed] if isinstance(seed, int) else list(seed), tf.int32)
        return rand_ops.dropout(inputs, rate=self.rate, noise_shape=self.noise_shape, seed=seed,
                                name=self.name, ref=self.ref, seed_modifier=self.seed_modifier)

    def compute_output_shape(self, input_shape):
        """The shape of the inputs."""
        return input_shape

    def get_config(self):
        """The constructor's arguments, of which later releases do not know seed_modifier."""
        changed = {} if self.seed_modifier == 1 else {"seed_modifier": self.seed_modifier}
        return {**super().get_config(), "rate": self.rate, "noise_shape": self.noise_shape,
                "seed": self.seed, "ref": self.ref, **changed}
