"""Histograms (`tensorflow.python.ipu.ops.statistics_ops`).

n levels, sorted upwards, cut the numbers in n + 1 bins: bin 0 is what is below the first level, bin
i what is from level i - 1 up to but not level i, the last what is from the last level on.
"""

import tensorflow.compat.v1 as tf


def fixed_width_bins(inputs, n_bins):
    """`n_bins` levels at equal distances from the smallest to the largest of `inputs`, float16 or
    float32 of any shape: the levels of a histogram, [n_bins] of that type. Raises TypeError for
    what cannot be made a tensor."""
    inputs = tf.convert_to_tensor(inputs)
    return tf.linspace(tf.reduce_min(inputs), tf.reduce_max(inputs), n_bins)


def histogram_normalize(hist):
    """A histogram, float32 [n + 1], whose bins add up to 1, of another one. Raises TypeError for
    what cannot be made a tensor."""
    return hist / tf.reduce_sum(hist, axis=0)


def histogram(inputs, levels, absolute_of_input=False):
    """How many of `inputs` (or of their magnitudes) are in each bin: float32 [n + 1].

    inputs, levels   vectors, float16 or float32

    Raises ValueError for other types and shapes.
    """
    inputs, levels = tf.convert_to_tensor(inputs), tf.convert_to_tensor(levels)
    _check_types("computation", inputs, levels)
    if inputs.shape.rank != 1 or levels.shape.rank != 1:
        raise ValueError("histogram expects rank-1 tensor inputs.")
    return _count("IpuHistogram", inputs, levels, absolute_of_input)


def histogram_update(hist, inputs, levels, absolute_of_input=False):
    """`hist`, float32 [n + 1], with more inputs counted in. The other arguments are as in
    histogram(). Raises ValueError for other types and shapes."""
    hist, inputs, levels = (tf.convert_to_tensor(one) for one in (hist, inputs, levels))
    if hist.dtype != tf.float32:
        raise ValueError("hist must be of float32 type")
    _check_types("update", inputs, levels)
    if any(one.shape.rank != 1 for one in (hist, inputs, levels)):
        raise ValueError("histogram_update expects rank-1 tensor inputs.")
    if hist.shape.as_list()[0] != levels.shape.as_list()[0] + 1:
        raise ValueError("hist and levels shapes are incompatible. "
                         "For n levels, hist must have n+1 elements.")
    return hist + _count("IpuHistogramUpdate", inputs, levels, absolute_of_input)


def _check_types(what, *tensors):
    if any(one.dtype not in (tf.float16, tf.float32) for one in tensors):
        raise ValueError(
            f"Only float16 and float32 types are supported for histogram {what}.")


def _count(name, inputs, levels, absolute):
    with tf.name_scope(name):
        values = tf.abs(inputs) if absolute else inputs
        values, levels = tf.cast(values, tf.float32), tf.cast(levels, tf.float32)
        # How many are from each level on; their differences are the bins.
        above = tf.reduce_sum(tf.cast(values[:, tf.newaxis] >= levels, tf.float32), 0)
        ends = tf.concat([[tf.cast(tf.size(values), tf.float32)], above], 0)
        return ends - tf.concat([above, [0.0]], 0)
