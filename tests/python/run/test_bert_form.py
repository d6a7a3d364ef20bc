"""BERT in small, as a program of TensorFlow 1: layers that are outlined functions of their
variables, attention with a mask, masked words, stochastic rounding and LAMB.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

_WORDS, _LENGTH, _WIDTH, _HEADS, _LAYERS, _STEPS = 20, 6, 8, 2, 3, 4
_random = np.random.RandomState(1)
_IDS = _random.randint(1, _WORDS, [2, _LENGTH]).astype(np.int32)
_MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], np.float32)
_LABELS = _random.randint(0, _WORDS, [2, _LENGTH]).astype(np.int32)


def _variable(name, shape):
    start = np.random.RandomState(sum(map(ord, name)) + len(shape)).randn(*shape) * 0.3
    return tf.get_variable(name, initializer=(start + (shape == [_WIDTH])).astype(np.float32))


def _norm(x, scale):
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
    return tf.cast((wide - mean) * tf.rsqrt(variance + 1e-6) * scale, x.dtype)


def _layer(x, bias, query, key, value, out, up, down, scale_1, scale_2):
    """Attention and two dense layers, each with its residual and norm."""
    def heads(weights):
        y = tf.tensordot(x, tf.cast(weights, x.dtype), 1)
        return tf.transpose(tf.reshape(y, [2, _LENGTH, _HEADS, -1]), [0, 2, 1, 3])

    scores = tf.matmul(heads(query), heads(key), transpose_b=True) * 0.5 + bias
    y = tf.matmul(tf.nn.softmax(scores), heads(value))
    y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [2, _LENGTH, _WIDTH])
    x = _norm(x + tf.tensordot(y, tf.cast(out, x.dtype), 1), scale_1)
    y = tf.nn.relu(tf.tensordot(x, tf.cast(up, x.dtype), 1))
    return _norm(x + tf.tensordot(y, tf.cast(down, x.dtype), 1), scale_2)


def _lamb(gradients, variables, rate=0.02):
    """Updates of LAMB whose moments have no correction."""
    updates = []
    for gradient, one in zip(gradients, variables):
        slots = [tf.get_variable(f"{one.op.name.split('/')[-1]}_{slot}", initializer=tf.zeros(
            one.shape), trainable=False) for slot in "mv"]
        gradient = tf.convert_to_tensor(gradient)
        m, v = 0.9 * slots[0] + 0.1 * gradient, 0.99 * slots[1] + 0.01 * tf.square(gradient)
        step = m / (tf.sqrt(v) + 1e-4) + 0.01 * one
        norm, length = tf.norm(one), tf.norm(step)
        ratio = tf.where(tf.greater(norm, 0), tf.where(tf.greater(length, 0), norm / length, 1.),
                         1.)
        updates += [slots[0].assign(m), slots[1].assign(v), one.assign_sub(rate * ratio * step)]
    return tf.group(*updates)


def _train(ids, mask, labels, dtype, outlined):
    words, places = _variable("words", [_WORDS, _WIDTH]), _variable("places", [_LENGTH, _WIDTH])
    x = tf.cast(tf.gather(words, ids) + places, dtype)
    bias = tf.cast((mask[:, None, None, :] - 1) * 1000, dtype)
    layer = ipu.outlined_function(_layer) if outlined else _layer
    for number in range(_LAYERS):
        shapes = {**dict.fromkeys(("query", "key", "value", "out"), [_WIDTH, _WIDTH]),
                  "up": [_WIDTH, 2 * _WIDTH], "down": [2 * _WIDTH, _WIDTH],
                  "scale_1": [_WIDTH], "scale_2": [_WIDTH]}
        x = layer(x, bias, *(_variable(f"{name}_{number}", shape)
                             for name, shape in shapes.items()))
    logits = tf.cast(tf.tensordot(x, tf.cast(words, dtype), [[2], [1]]), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    variables = tf.trainable_variables()
    with tf.control_dependencies([_lamb(tf.gradients(loss, variables), variables)]):
        return tf.identity(loss)


def _run(dtype=tf.float32, on_ipu=True):
    """The losses of the steps, and the variables after them."""
    if on_ipu:
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.floating_point_behaviour.esr = ipu.config.StochasticRoundingBehaviour.ON
        config.configure_ipu_system()
    with tf.Graph().as_default():
        with tf.device("cpu"):
            inputs = [tf.placeholder(one.dtype, one.shape) for one in (_IDS, _MASK, _LABELS)]
        with tf.device("/device:IPU:0" if on_ipu else "cpu"), tf.variable_scope(
                "bert", use_resource=True):
            loss = ipu.ipu_compiler.compile(lambda *all: _train(*all, dtype, True), inputs)[0] \
                if on_ipu else _train(*inputs, dtype, False)
        if on_ipu:
            ipu.utils.move_variable_initialization_to_cpu()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run(loss, dict(zip(inputs, (_IDS, _MASK, _LABELS))))
                      for _ in range(_STEPS)]
            return losses, {one.name: session.run(one) for one in tf.trainable_variables()}


@pytest.fixture(scope="module")
def plain():
    return _run(on_ipu=False)


@pytest.mark.parametrize("dtype, tolerance", [(tf.float32, 1e-4), (tf.float16, 3e-2)])
def test_training_equals_plain_tensorflow(plain, dtype, tolerance, capfd):
    losses, variables = _run(dtype)
    assert "not planned for an IPU" not in capfd.readouterr().err
    np.testing.assert_allclose(losses, plain[0], rtol=tolerance)
    assert losses[-1] < losses[0]
    if dtype == tf.float32:
        for name, expected in plain[1].items():
            np.testing.assert_allclose(variables[name], expected, atol=tolerance, err_msg=name)
