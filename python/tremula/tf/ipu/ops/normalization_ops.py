"""Group, layer and instance normalization (`tensorflow.python.ipu.ops.normalization_ops`).

The defaults are those of SDK 2.3 and later. Positional arguments may be in the order of SDK 1.2,
which had `reduction_axes` after `channels_axis`.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _generations, normalization_ops_grad
from tremula.tf.runtime.base import checks

DATA_FORMAT_NCHW = "NCHW"
DATA_FORMAT_NHWC = "NHWC"

__all__ = ["group_norm", "instance_norm", "layer_norm"]

_REST = ("center", "scale", "epsilon", "param_initializers", "reuse", "variables_collections",
         "training", "trainable", "scope")


def _older(*first):
    """SDK 1.2: what comes after `first` is reduction_axes, where `center`, a bool, is now."""
    return _generations.older_order(
        (*first, "reduction_axes", *_REST),
        lambda arguments: len(arguments) > len(first) and not isinstance(
            arguments[len(first)], bool))


@_older("inputs", "groups", "channels_axis")
def group_norm(inputs, groups=2, channels_axis=-1, center=True, scale=True, epsilon=1.53e-5,
               param_initializers=None, reuse=None, variables_collections=None, training=True,
               trainable=True, scope=None, strided_channel_grouping=True, reduction_axes=None):
    """Normalizes each group of channels of each sample to mean 0 and variance 1.

    inputs                    float16 or float32, two dimensions or more, samples first
    groups                    number of groups; divides the number of channels
    channels_axis             1 or the last
    center, scale             whether to add a variable `beta`, to multiply by a variable `gamma`
    epsilon                   is added to the variance
    param_initializers        {"beta": initializer, "gamma": initializer}
    reuse, variables_collections, trainable, scope   of the variables
    training                  no difference: the statistics are the input's either way
    strided_channel_grouping  whether group g has the channels g, g + groups, ... instead of
                              neighbouring ones
    reduction_axes            is ignored, as in the original

    Returns a tensor like inputs. Raises ValueError for shapes that do not fit, TypeError for
    arguments of other kinds.
    """
    del training, reduction_axes
    return _group_norm(inputs, groups, channels_axis, center, scale, epsilon, param_initializers,
                       reuse, variables_collections, trainable, scope, strided_channel_grouping,
                       "GroupNorm")


@_older("inputs", "channels_axis")
def layer_norm(inputs, channels_axis=-1, center=True, scale=True, epsilon=1.53e-5,
               param_initializers=None, reuse=None, variables_collections=None, training=True,
               trainable=True, scope=None, reduction_axes=None):
    """Normalizes each sample: group_norm() with one group, whose shapes and types it has. gamma and
    beta have one value a channel. Raises ValueError for shapes that do not fit, TypeError for
    arguments of other kinds."""
    del training, reduction_axes
    return _group_norm(inputs, 1, channels_axis, center, scale, epsilon, param_initializers,
                       reuse, variables_collections, trainable, scope, True, "LayerNorm")


@_older("inputs", "channels_axis")
def instance_norm(inputs, channels_axis=-1, center=True, scale=True, epsilon=1.53e-5,
                  param_initializers=None, reuse=None, variables_collections=None, training=True,
                  trainable=True, scope=None, reduction_axes=None):
    """Normalizes each channel of each sample: group_norm() with a group for each channel, whose
    shapes and types it has. Raises ValueError for shapes that do not fit, TypeError for arguments
    of other kinds."""
    del training, reduction_axes
    return _group_norm(inputs, None, channels_axis, center, scale, epsilon, param_initializers,
                       reuse, variables_collections, trainable, scope, True, "InstanceNorm")


def _group_norm(inputs, groups, channels_axis, center, scale, epsilon, initializers, reuse,
                collections, trainable, scope, strided, kind):
    inputs, = checks.tensors("inputs", [inputs])
    groups = checks.whole("groups", groups, optional=True)
    checks.integer("channels_axis", channels_axis)
    checks.number("epsilon", epsilon, least=0)
    for option, value in (("center", center), ("scale", scale), ("trainable", trainable),
                          ("strided_channel_grouping", strided)):
        checks.boolean(option, value)
    if initializers is not None and not isinstance(initializers, dict):
        raise TypeError(f"param_initializers must be a dict, but it is {initializers!r}.")
    name, rank = _name(inputs), inputs.shape.rank
    if rank is None:
        raise ValueError(f"Inputs {name} has undefined rank.")
    if not -rank <= channels_axis < rank:
        raise ValueError("Axis is out of bounds.")
    channels_axis %= rank
    if channels_axis not in (1, rank - 1):
        raise ValueError("Unsupported data format, group norm only supports NCHW"
                         "(channel axis 1) and NHWC (channel axis -1).")
    channels = inputs.shape.as_list()[channels_axis]
    if channels is None:
        raise ValueError(f"Inputs {name} has undefined channel dimension: {channels_axis}.")
    groups = channels if groups is None else groups
    if groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if groups < 1 or channels % groups != 0:
        raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")

    initializers = initializers or {}
    dtype = inputs.dtype.base_dtype

    def parameter(wanted, key, initializer, constant):
        if not wanted:
            return tf.constant(constant, dtype, [channels])
        return tf.convert_to_tensor(tf.get_variable(
            key, [channels], dtype, initializers.get(key, initializer), trainable=trainable,
            collections=collections.get(key) if isinstance(collections, dict) else collections))

    with tf.variable_scope(scope, kind, [inputs], reuse=reuse):
        beta = parameter(center, "beta", tf.zeros_initializer(), 0.0)
        gamma = parameter(scale, "gamma", tf.ones_initializer(), 1.0)
        cut = normalization_ops_grad.Groups(groups, channels, channels_axis == 1, strided,
                                            float(epsilon))
        with tf.name_scope("PopnnGroupNormTraining") as name, cut.layer(name, "training", inputs):
            return normalization_ops_grad.group_norm(inputs, gamma, beta, cut)


def _name(tensor):
    return "" if tf.executing_eagerly() else tensor.name
