"""Dropout with its seed (`gen_poprand_ops`).

`rate` is the probability of keeping an element here, unlike ipu.rand_ops.dropout()'s. A "reference"
stands for the mask in the original; here a mask follows from the seed, which is the reference.
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
    """(output, seed that was drawn, reference), for ipu_dropout_with_seed_and_reference(). As
    ipu_dropout_with_seed()."""
    return ipu_dropout_with_seed(input, _drawn(), rate, scale, noise_shape, name or "IpuDropout")


def ipu_dropout_no_ref(input, rate, scale, noise_shape=None, name=None):
    """(output, seed that was drawn). As ipu_dropout_with_seed()."""
    return ipu_dropout_with_seed_no_ref(input, _drawn(), rate, scale, noise_shape,
                                        name or "IpuDropoutNoRef")


def ipu_dropout_with_seed(input, seed, rate, scale, noise_shape=None, name=None):
    """(output, seed, reference); equal seeds drop equal elements.

    input        float16 or float32 of any shape, which output has too
    seed         int32 [2]
    rate         the part that is kept, a number: 1 less the rate of ipu.rand_ops.dropout()
    noise_shape  a list of integers

    Raises ValueError for a rate that is out of range.
    """
    seed = tf.convert_to_tensor(seed)
    output = _dropout(input, seed, rate, scale, noise_shape, name or "IpuDropoutWithSeed")
    return _WithReference(output, seed, seed)


def ipu_dropout_with_seed_no_ref(input, seed, rate, scale, noise_shape=None, name=None):
    """(output, seed). As ipu_dropout_with_seed()."""
    seed = tf.convert_to_tensor(seed)
    output = _dropout(input, seed, rate, scale, noise_shape, name or "IpuDropoutWithSeedNoRef")
    return _NoReference(output, seed)


def ipu_dropout_with_seed_and_reference(input, seed, reference, rate, scale, noise_shape=None,
                                        name=None):
    """(output, seed), dropping what the call that gave `reference` dropped. As
    ipu_dropout_with_seed()."""
    output = _dropout(input, reference, rate, scale, noise_shape,
                      name or "IpuDropoutWithSeedAndReference")
    return _NoReference(output, tf.convert_to_tensor(seed))


def _dropout(value, seed, rate, scale, noise_shape, name):
    return rand_ops.dropout(value, rate=1.0 - rate, seed=seed, scale=scale,
                            noise_shape=list(noise_shape) if noise_shape else None, name=name)


def _drawn():
    return tf.random.uniform([2], -2 ** 31, 2 ** 31 - 1, tf.int32)
