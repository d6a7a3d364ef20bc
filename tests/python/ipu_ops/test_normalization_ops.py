"""Group, layer and instance norms against numpy and Keras, with gradients."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu.ops import normalization_ops

EPSILON = 1.53e-5


def reference(x, groups, channels_first, strided, gamma, beta):
    """In float64, a group at a time."""
    x = x.astype(np.float64)
    moved = np.moveaxis(x, 1, -1) if channels_first else x
    y = np.empty_like(moved)
    channels = moved.shape[-1]
    for g in range(groups):
        size = channels // groups
        members = np.arange(g, channels, groups) if strided else g * size + np.arange(size)
        part = moved[..., members]
        axes = tuple(range(1, part.ndim))
        mean = part.mean(axes, keepdims=True)
        y[..., members] = (part - mean) / np.sqrt(part.var(axes, keepdims=True) + EPSILON)
    y = y * gamma + beta
    return np.moveaxis(y, -1, 1) if channels_first else y


def autodiff(x, groups, channels_first, strided, gamma, beta):
    """The same by TensorFlow, whose gradient is its own."""
    rank = x.shape.rank
    if channels_first:
        x = tf.transpose(x, [0, *range(2, rank), 1])
    channels = int(x.shape[-1])
    split = [channels // groups, groups] if strided else [groups, channels // groups]
    cut = tf.reshape(x, [int(x.shape[0]), -1, *split])
    mean, variance = tf.nn.moments(cut, [1, 2 if strided else 3], keep_dims=True)
    y = tf.reshape((cut - mean) / tf.sqrt(variance + EPSILON), x.shape) * gamma + beta
    return tf.transpose(y, [0, rank - 1, *range(1, rank - 1)]) if channels_first else y


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("shape, axis, groups, strided", [
    ((2, 3, 4, 6), -1, 2, True), ((2, 3, 4, 6), -1, 2, False), ((2, 6, 3, 4), 1, 3, True),
    ((2, 6, 3, 4), 1, 3, False), ((4, 6), -1, 2, True), ((3, 5, 6), 2, 1, True)])
def test_group_norm(run, random, where, shape, axis, groups, strided):
    x, dy = random(*shape) + 3, random(*shape)
    gamma, beta = random(6), random(6)

    def mine(x, dy):
        y = normalization_ops.group_norm(x, groups, axis, strided_channel_grouping=strided,
                                         scope="norm")
        with tf.variable_scope("norm", reuse=True):
            variables = [tf.get_variable(name) for name in ("gamma", "beta")]
        return [y, *tf.gradients(y, [x, *variables], dy)]

    got = run(mine, x, dy, where=where, variables={"gamma": gamma, "beta": beta})
    first = axis == 1 and len(shape) > 2
    np.testing.assert_allclose(got[0], reference(x, groups, first, strided, gamma, beta),
                               atol=2e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        values = [tf.constant(one.astype(np.float64)) for one in (x, gamma, beta)]
        y = autodiff(values[0], groups, first, strided, *values[1:])
        want = session.run(tf.gradients(y, values, tf.constant(dy.astype(np.float64))))
    for one, other in zip(got[1:], want):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_float16(run, random):
    x, dy = random(2, 8, 8, 6, dtype=np.float16) * np.float16(40), random(2, 8, 8, 6,
                                                                          dtype=np.float16)

    def mine(x, dy):
        y = normalization_ops.group_norm(x)
        return y, tf.gradients(y, x, dy)[0]

    y, dx = run(mine, x, dy)
    assert y.dtype == dx.dtype == np.float16
    np.testing.assert_allclose(y, reference(x, 2, False, True, 1, 0), rtol=1e-3, atol=1e-3)
    wide = run(mine, x.astype(np.float32), dy.astype(np.float32))[1]
    np.testing.assert_allclose(dx, wide, rtol=2e-3, atol=1e-4)


def test_layer_and_instance_norm(run, random):
    x = random(3, 4, 5, 6)
    layer, instance = run(lambda x: [normalization_ops.layer_norm(x),
                                     normalization_ops.instance_norm(x)], x)
    np.testing.assert_allclose(layer, reference(x, 1, False, True, 1, 0), atol=2e-5)
    np.testing.assert_allclose(instance, reference(x, 6, False, True, 1, 0), atol=2e-5)


def test_layer_norm_is_keras_layer_norm(run, random):
    x = random(7, 12)
    mine, = run(lambda x: normalization_ops.layer_norm(x, epsilon=1e-3), x)
    keras, = run(lambda x: tf.keras.layers.LayerNormalization(epsilon=1e-3)(x), x, where="cpu")
    np.testing.assert_allclose(mine, keras, atol=1e-5)


def test_training_makes_no_difference(run, random):
    x = random(2, 5, 6)
    one, other = run(lambda x: [normalization_ops.group_norm(x, training=training)
                                for training in (True, False)], x)
    np.testing.assert_array_equal(one, other)


def test_variables():
    x = tf.zeros([2, 4, 4, 6])
    normalization_ops.group_norm(x)
    normalization_ops.layer_norm(x, center=False, trainable=False)
    normalization_ops.instance_norm(x, scope="mine")
    normalization_ops.instance_norm(x, scope="mine", reuse=True)
    normalization_ops.group_norm(x, scope="there", variables_collections={"beta": ["kept"]},
                                 param_initializers={"gamma": tf.constant_initializer(5.)})
    assert [one.op.name for one in tf.trainable_variables()] == [
        "GroupNorm/beta", "GroupNorm/gamma", "mine/beta", "mine/gamma", "there/beta",
        "there/gamma"]
    assert [one.op.name for one in tf.get_collection("kept")] == ["there/beta"]
    assert "LayerNorm/gamma" in [one.op.name for one in tf.global_variables()]
    assert all(one.shape == [6] for one in tf.global_variables())


def test_positions_of_sdk_1_2(run, random):
    x = random(2, 4, 6)
    old, new, layer = run(lambda x: [
        normalization_ops.group_norm(x, 3, -1, None, False, False, 1e-3),
        normalization_ops.group_norm(x, 3, -1, False, False, 1e-3),
        normalization_ops.layer_norm(x, -1, [1], True, False)], x)
    np.testing.assert_array_equal(old, new)
    assert layer.shape == (2, 4, 6)


@pytest.mark.parametrize("shape, arguments, text", [
    (None, {}, "has undefined rank"),
    ([2, 3, 4, 6], {"channels_axis": 4}, "Axis is out of bounds."),
    ([2, 3, 4, 6], {"channels_axis": 2}, r"Unsupported data format, group norm only supports "
     r"NCHW\(channel axis 1\) and NHWC \(channel axis -1\)."),
    ([2, 3, None], {}, "undefined channel dimension: 2"),
    ([2, 3, 6], {"groups": 7}, "Invalid groups 7 for 6 channels."),
    ([2, 3, 6], {"groups": 4}, "6 channels is not commensurate with 4 groups."),
])
def test_refusals(shape, arguments, text):
    with pytest.raises(ValueError, match=text):
        normalization_ops.group_norm(tf.placeholder(tf.float32, shape), **arguments)


def test_a_batch_that_is_not_known(run, random):
    x = tf.placeholder(tf.float32, [None, 4, 6])
    y = normalization_ops.group_norm(x)
    assert y.shape.as_list() == [None, 4, 6]
    value = random(3, 4, 6)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(y, {x: value}),
                                   reference(value, 2, False, True, 1, 0), atol=2e-5)
