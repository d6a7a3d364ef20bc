"""`tf.contrib.layers`: its initializers and regularizers, and `flatten`.

The layers are tf_slim's.
"""

import math
import sys

import tensorflow.compat.v1 as tf

from tremula.tf1 import contrib_slim, missing

__path__ = []  # the original had files below


def __getattr__(name):
    if name in ("initializers", "layers", "regularizers"):  # files of the original
        return sys.modules[__name__]
    value = None
    if not name.startswith("__"):
        wanted = f"tf.contrib.layers.{name}"
        value = contrib_slim.attribute("layers", name, wanted)
        if value is None and name in ("OPTIMIZER_CLS_NAMES", "optimize_loss"):
            value = contrib_slim.attribute("layers.optimizers", name, wanted)
    if value is None:
        raise missing.attribute("layers", name)
    return value


def xavier_initializer(uniform=True, seed=None, dtype=tf.float32):
    """Initial values of the same variance in both directions: 2 / (inputs + outputs)."""
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed,
                                        dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=None,
                                 dtype=tf.float32):
    """Initial values of the variance factor / n; n: inputs (FAN_IN), outputs (FAN_OUT) or the
    mean of both (FAN_AVG).

    Normal values are cut off at two standard deviations and widened to make up for it. Raises
    TypeError if `dtype` is no floating point type, ValueError for another mode.
    """
    dtype = tf.as_dtype(dtype)
    if not dtype.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise ValueError(f"Unknown mode {mode!r}: it must be FAN_IN, FAN_OUT or FAN_AVG.")
    own_dtype = dtype

    def initial_value(shape, dtype=own_dtype, partition_info=None):
        dtype = tf.as_dtype(dtype or own_dtype)
        if not dtype.is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        whole = partition_info.full_shape if partition_info is not None else shape
        deviation = math.sqrt(factor / _fan([int(size) for size in whole], mode))
        if uniform:
            limit = math.sqrt(3.0) * deviation
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3) * deviation, dtype, seed=seed)

    return initial_value


def l1_regularizer(scale, scope=None):
    """A function: scale * sum(|w|) of a tensor w. Raises ValueError unless 0 <= scale <= 1."""
    return _regularizer(scale, scope, "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale, scope=None):
    """A function: scale * sum(w**2) / 2 of a tensor w. Raises ValueError unless 0 <= scale <= 1."""
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    """The sum of both."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)],
                           scope=scope or "l1_l2_regularizer")


def sum_regularizer(regularizer_list, scope=None):
    """The sum of several regularizers; None if there is none."""
    regularizers = [one for one in regularizer_list if one is not None]
    if not regularizers:
        return None

    def total(weights):
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            terms = [term for term in (one(weights) for one in regularizers) if term is not None]
            return tf.add_n(terms, name=name) if terms else None

    return total


def apply_regularization(regularizer, weights_list=None):
    """The sum of `regularizer` over the tensors (None: those of the collection WEIGHTS), which is
    added to the collection of regularization losses. A scalar, 0 for no tensors."""
    weights = weights_list or tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights:
        return tf.constant(0.0)
    with tf.name_scope("get_regularization_penalty", values=weights) as name:
        terms = [term for term in map(regularizer, weights) if term is not None]
        loss = tf.add_n(terms, name=name) if terms else tf.constant(0.0, name=name)
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
    return loss


def flatten(inputs, outputs_collections=None, scope=None):
    """`inputs` of shape [batch, ...] and any type as [batch, size of the rest]. Raises ValueError
    for a scalar."""
    with tf.name_scope(scope, "Flatten", [inputs]):
        flat = tf.layers.flatten(inputs)
    for collection in [outputs_collections] if outputs_collections else []:
        tf.add_to_collection(collection, flat)
    return flat


def _fan(shape, mode):
    """The number that `mode` asks for, of weights with `shape`: at least a float above 0."""
    field = math.prod(shape[:-2]) if shape else 1
    inputs = float((shape[-2] if len(shape) > 1 else shape[-1] if shape else 1) * field)
    outputs = float((shape[-1] if shape else 1) * field)
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2.0}[mode]


def _regularizer(scale, scope, name, loss):
    if isinstance(scale, int) and not isinstance(scale, bool) and scale != 0:
        raise ValueError(f"scale cannot be an integer: {scale}")
    if not 0.0 <= scale <= 1.0:
        raise ValueError(f"The scale of a regularizer must be from 0 to 1, but it is {scale}.")
    if scale == 0.0:
        return lambda _: None

    def scaled(weights):
        with tf.name_scope(scope, name, [weights]) as inner:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, loss(weights), name=inner)

    return scaled
