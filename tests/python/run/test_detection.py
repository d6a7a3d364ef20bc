"""A small network for finding objects in images: half precision, norms with statistics in single
precision, upsampling, concatenation and outputs of several scales.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

_IMAGES = np.random.RandomState(1).rand(2, 16, 16, 3).astype(np.float32)
_BOXES = 6  # numbers for each place of an output


def _variable(name, shape, value=None):
    start = np.random.RandomState(len(name) + shape[0]).randn(*shape) / np.sqrt(
        np.prod(shape[:-1])) if value is None else np.full(shape, value)
    return tf.get_variable(name, initializer=start.astype(np.float32))


def _layer(x, name, filters, size, stride, training):
    """A convolution, a norm and a leaky relu; the norm has moving averages."""
    with tf.variable_scope(name):
        kernel = _variable("kernel", [size, size, int(x.shape[-1]), filters])
        scale, offset = _variable("scale", [filters], 1.), _variable("offset", [filters], 0.1)
        mean, variance = _variable("mean", [filters], 0.), _variable("variance", [filters], 1.)
        y = tf.nn.conv2d(x, tf.cast(kernel, x.dtype), stride, "SAME")
        if training:
            y, batch_mean, batch_variance = tf.nn.fused_batch_norm(
                y, scale, offset, epsilon=1e-3, is_training=True)
            for average, value in ((mean, batch_mean), (variance, batch_variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS,
                                     tf.assign_sub(average, (average - value) * 0.1))
        else:
            y, _, _ = tf.nn.fused_batch_norm(y, scale, offset, mean, variance, epsilon=1e-3,
                                             is_training=False)
        return tf.nn.leaky_relu(y, 0.1)


def _network(images, dtype, training):
    """The outputs of two scales."""
    x = _layer(tf.cast(images, dtype), "a", 8, 3, 2, training)
    fine = _layer(x, "b", 12, 3, 1, training)
    coarse = _layer(fine, "c", 16, 3, 2, training)
    coarse = coarse + _layer(_layer(coarse, "d", 8, 1, 1, training), "e", 16, 3, 1, training)
    up = _layer(coarse, "f", 8, 1, 1, training)
    up = tf.reshape(tf.tile(up[:, :, None, :, None], [1, 1, 2, 1, 2, 1]), [2, 8, 8, 8])
    outputs = []
    for name, one in (("coarse", coarse), ("fine", tf.concat([up, fine], -1))):
        with tf.variable_scope(f"output_{name}"):
            kernel = _variable("kernel", [1, 1, int(one.shape[-1]), _BOXES])
            bias = _variable("bias", [_BOXES], 0.)
            y = tf.nn.bias_add(tf.nn.conv2d(one, tf.cast(kernel, dtype), 1, "SAME"),
                               tf.cast(bias, dtype))
        place, rest = tf.split(tf.cast(y, tf.float32), [2, _BOXES - 2], -1)
        outputs.append(tf.concat([tf.sigmoid(place), rest], -1))
    return outputs


def _train(images, dtype):
    outputs = _network(images, dtype, True)
    loss = tf.add_n([tf.reduce_mean(tf.square(one - 0.5)) for one in outputs])
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    with tf.control_dependencies([train]):
        return tf.identity(loss)


def _run(build, how, dtype):
    """What three runs give, and the variables after them."""
    with tf.Graph().as_default():
        with tf.device("cpu"):
            images = tf.placeholder(tf.float32, _IMAGES.shape)
        with tf.device("cpu" if how == "cpu" else "/device:IPU:0"), tf.variable_scope(
                "net", use_resource=True):
            fetches = build(images, dtype) if how != "compiled" else ipu.ipu_compiler.compile(
                lambda images: build(images, dtype), [images])
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            got = [np.concatenate([np.ravel(one) for one in tf.nest.flatten(
                s.run(fetches, {images: _IMAGES}))]) for _ in range(3)]
            variables = {one.name: s.run(one) for one in tf.global_variables()}
            return got, variables


@pytest.mark.parametrize("build", [lambda x, dtype: _network(x, dtype, False), _train],
                         ids=["inference", "training"])
def test_half_precision_is_near_single(build):
    expected, expected_variables = _run(build, "cpu", tf.float32)
    for how in ("compiled", "placed"):
        got, variables = _run(build, how, tf.float16)
        np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02)
        for name, value in expected_variables.items():
            np.testing.assert_allclose(variables[name], value, rtol=0.02, atol=0.02, err_msg=name)
    if build is _train:
        assert expected[2] < expected[0]
