"""Dropout that also returns its seed (`gen_poprand_ops`).

The mask says which elements are dropped. It follows from the seed alone: equal seeds drop equal
elements. The original keeps a mask under a reference; here the seed is the reference.

`rate` is the probability of *keeping* an element, which ipu.rand_ops.dropout() calls 1 - rate.
"""

# The original's names of arguments.  pylint: disable=redefined-builtin

import collections

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import rand_ops
from tremula.tf.plugin.poplar.ops import _refused

_WithReference = collections.namedtuple("IpuDropout", ["output", "seed", "reference"])
_NoReference = collections.namedtuple("IpuDropoutNoRef", ["output", "seed"])


def __getattr__(name):
    _refused.attribute(__name__, name)


def ipu_dropout(input, rate, scale, noise_shape=None, name=None):
    """Dropout with a new random seed: (output, the seed, reference). As
    ipu_dropout_with_seed()."""
    return ipu_dropout_with_seed(input, _drawn(), rate, scale, noise_shape, name or "IpuDropout")


def ipu_dropout_no_ref(input, rate, scale, noise_shape=None, name=None):
    """Dropout with a new random seed: (output, the seed). As ipu_dropout_with_seed()."""
    return ipu_dropout_with_seed_no_ref(input, _drawn(), rate, scale, noise_shape,
                                        name or "IpuDropoutNoRef")


def ipu_dropout_with_seed(input, seed, rate, scale, noise_shape=None, name=None):
    """Dropout with a given seed: (output, the seed, reference).

    input        float16 or float32 of any shape, which output has too
    seed         int32 [2]
    rate         the probability that an element is kept, a number above 0 and at most 1
    scale        what kept elements are multiplied by, a number
    noise_shape  a list of integers, or None: along its dimensions of 1, all elements are kept or
                 dropped together

    The reference is for ipu_dropout_with_seed_and_reference(). Raises ValueError for a rate that is
    out of range.
    """
    seed = tf.convert_to_tensor(seed)
    output = _dropout(input, seed, rate, scale, noise_shape, name or "IpuDropoutWithSeed")
    return _WithReference(output, seed, seed)


def ipu_dropout_with_seed_no_ref(input, seed, rate, scale, noise_shape=None, name=None):
    """Dropout with a given seed: (output, the seed). As ipu_dropout_with_seed()."""
    seed = tf.convert_to_tensor(seed)
    output = _dropout(input, seed, rate, scale, noise_shape, name or "IpuDropoutWithSeedNoRef")
    return _NoReference(output, seed)


def ipu_dropout_with_seed_and_reference(input, seed, reference, rate, scale, noise_shape=None,
                                        name=None):
    """Dropout of what the call that gave `reference` has dropped: (output, the seed). As
    ipu_dropout_with_seed(); the seed has no effect here."""
    output = _dropout(input, reference, rate, scale, noise_shape,
                      name or "IpuDropoutWithSeedAndReference")
    return _NoReference(output, tf.convert_to_tensor(seed))


def _dropout(value, seed, rate, scale, noise_shape, name):
    return rand_ops.dropout(value, rate=1.0 - rate, seed=seed, scale=scale,
                            noise_shape=list(noise_shape) if noise_shape else None, name=name)


def _drawn():
    return tf.random.uniform([2], -2 ** 31, 2 ** 31 - 1, tf.int32)
