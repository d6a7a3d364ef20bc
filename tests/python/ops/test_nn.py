"""Pooling, normalisation, softmax, losses, embeddings, and layers made of them."""

import numpy as np
import pytest
import tensorflow as tf
from case_values import fixed, floats, indices, normal, positive_floats, uniform
from differential import FLOATS, Case, check_all, differential, gradients

batch_norm = tf.compat.v1.nn.fused_batch_norm


def _pool(op, window, strides, padding, integers=False):
    return lambda x: op(x, window, strides, padding)


POOL = sum([
    [Case(f"{kind}_{name}", _pool(op, *how), [normal(2, 9, 7, 5)], bound=bound),
     Case(f"{kind}_{name}_gradients", gradients(_pool(op, *how)),
          [normal(2, 9, 7, 5)], bound="sum")]
    for kind, op, bound in [("max", tf.nn.max_pool2d, "exact"), ("avg", tf.nn.avg_pool2d, "sum")]
    for name, how in [("same", (3, 2, "SAME")), ("valid", (2, 2, "VALID")),
                      ("overlapping", (3, 1, "SAME")), ("oblong", ([2, 3], [3, 1], "VALID"))]
], []) + [
    Case("max_ties", gradients(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME")),
         [lambda rng, dtype: rng.integers(0, 3, (2, 9, 7, 5)).astype(dtype)], FLOATS, "sum",
         but={"tf": "TensorFlow's kernel gives a tie's gradient to the first of each row order"}),
    Case("max_1d", lambda x: tf.nn.max_pool1d(x, 3, 2, "SAME"), [normal(2, 9, 5)], FLOATS),
    Case("max_3d", lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), [normal(1, 5, 4, 6, 3)],
         ("float32",)),
    Case("avg_3d", gradients(lambda x: tf.nn.avg_pool3d(x, 2, 2, "SAME")), [normal(1, 5, 4, 6, 3)],
         ("float32",), "sum"),
    Case("max_infinite", lambda x: tf.nn.max_pool2d(x, 2, 1, "SAME"),
         [lambda rng, dtype: np.where(rng.random((1, 6, 6, 2)) < .5, -np.inf,
                                      np.inf).astype(dtype)], FLOATS,
         but={"tf": "TensorFlow's kernel starts at the lowest finite number"}),
    Case("global_mean", gradients(lambda x: tf.reduce_mean(x, [1, 2])), [normal(2, 7, 7, 9)],
         FLOATS, "sum"),
]


def _train(x, scale, offset):
    return batch_norm(x, scale, offset, is_training=True, epsilon=1e-3)


def _infer(x, scale, offset, mean, variance):
    return batch_norm(x, scale, offset, mean, variance, is_training=False, epsilon=1e-3)[0]


def _layer_norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + tf.cast(1e-3, x.dtype)) * scale + offset


NORMALISE = [
    Case("batch_norm_training", lambda *a: _train(*a)[:3],
         [normal(3, 5, 4, 6), positive_floats(6), floats(6)], FLOATS, "norm"),
    Case("batch_norm_offset_data", lambda *a: _train(*a)[:3],
         [lambda rng, dtype: (rng.standard_normal((4, 6, 6, 3)) + 5).astype(dtype),
          positive_floats(3), floats(3)], FLOATS, "norm",
         but={"xla": "XLA's variance is the mean of squares less the squared mean, which cancels"}),
    Case("batch_norm_gradients", gradients(lambda *a: _train(*a)[0]),
         [normal(3, 5, 4, 6), positive_floats(6), floats(6)], FLOATS, "norm"),
    Case("batch_norm_wide", gradients(lambda *a: _train(*a)[0]),
         [normal(2, 3, 3, 70), positive_floats(70), floats(70)], FLOATS, "norm"),
    Case("batch_norm_inference", _infer,
         [normal(3, 5, 4, 6), positive_floats(6), floats(6), floats(6), positive_floats(6)], FLOATS,
         "norm"),
    Case("batch_norm_inference_gradients", gradients(_infer, 0, 1, 2),
         [normal(3, 5, 4, 6), positive_floats(6), floats(6), floats(6), positive_floats(6)], FLOATS,
         "norm"),
    Case("batch_norm_one_position", lambda *a: _train(*a)[0],
         [normal(6, 1, 1, 5), positive_floats(5), floats(5)], FLOATS, "norm"),
    Case("batch_norm_relu_add", lambda x, s, o, y: tf.nn.relu(_train(x, s, o)[0] + y),
         [normal(3, 5, 4, 6), positive_floats(6), floats(6), normal(3, 5, 4, 6)], FLOATS, "norm"),
    Case("nn_batch_normalization", lambda x, m, v, o, s: tf.nn.batch_normalization(
        x, m, v, o, s, 1e-3), [normal(5, 6), normal(6), uniform(6, low=.5, high=2), normal(6),
                               normal(6)], FLOATS, "chain"),
    Case("layer_norm", _layer_norm, [normal(4, 5, 16), normal(16), normal(16)], FLOATS, "norm"),
    Case("layer_norm_gradients", gradients(_layer_norm), [normal(4, 5, 16), normal(16), normal(16)],
         FLOATS, "norm"),
    Case("l2_normalize", gradients(lambda x: tf.nn.l2_normalize(x, 1)), [normal(5, 9)], FLOATS,
         "norm"),
    Case("lrn", tf.nn.lrn, [normal(1, 3, 3, 8)], ("float32",), "chain"),
    Case("lrn_gradients", gradients(tf.nn.lrn), [normal(1, 3, 3, 8)], ("float32",), "chain"),
    Case("dropout_mask", lambda x, u: tf.where(u < .5, tf.zeros_like(x), x / .5),
         [normal(5, 9), uniform(5, 9, low=0)], FLOATS),
]


def _xent(labels, logits):
    return tf.nn.softmax_cross_entropy_with_logits(labels, logits)


def _sparse(logits, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


SOFTMAX = [
    Case("softmax", tf.nn.softmax, [normal(5, 9, scale=4)], FLOATS, "chain"),
    Case("softmax_axis", lambda x: tf.nn.softmax(x, 1), [normal(3, 5, 4)], FLOATS, "chain"),
    Case("softmax_large", tf.nn.softmax, [normal(4, 1001)], FLOATS, "chain"),
    Case("softmax_huge_values", tf.nn.softmax,
         [fixed([[1e4, -1e4, 9990.], [3e4, 3e4, 1.]])], FLOATS,
         "chain"),
    Case("softmax_masked", lambda x: tf.nn.softmax(tf.where(x > 0, x, -np.inf)), [normal(5, 9)],
         FLOATS, "chain"),
    Case("softmax_gradients", gradients(tf.nn.softmax), [normal(5, 9)], FLOATS, "chain"),
    Case("log_softmax", tf.nn.log_softmax, [normal(5, 9, scale=4)], FLOATS, "chain"),
    Case("log_softmax_gradients", gradients(tf.nn.log_softmax), [normal(5, 9)], FLOATS, "chain"),
    Case("xent", lambda p, x: _xent(tf.nn.softmax(p), x), [normal(5, 9), normal(5, 9)], FLOATS,
         "chain"),
    Case("xent_gradients", gradients(_xent, 1),
         [uniform(5, 9, low=0, high=.2), normal(5, 9)], FLOATS,
         "chain"),
    Case("sparse_xent", _sparse, [normal(6, 9), indices(6, high=9)], FLOATS, "chain"),
    Case("sparse_xent_gradients", gradients(_sparse, 0), [normal(6, 9), indices(6, high=9)], FLOATS,
         "chain"),
    Case("sparse_xent_mean", gradients(lambda x, y: tf.reduce_mean(_sparse(x, y)), 0),
         [normal(4, 1000), indices(4, high=1000)], FLOATS, "chain"),
    Case("sigmoid_xent", gradients(lambda x, z: tf.nn.sigmoid_cross_entropy_with_logits(z, x), 0),
         [normal(5, 9), uniform(5, 9, low=0)], FLOATS, "chain"),
    Case("huber", gradients(lambda x: tf.where(tf.abs(x) < 1, x * x / 2, tf.abs(x) - .5)),
         [normal(5, 9)], FLOATS, "chain"),
    Case("activation_gradients", gradients(lambda x: (
        tf.nn.relu(x), tf.nn.relu6(x), tf.tanh(x), tf.sigmoid(x), tf.nn.elu(x), tf.nn.softplus(x),
        tf.nn.selu(x), tf.nn.leaky_relu(x), tf.nn.softsign(x))), [normal(7, 9, scale=2)], FLOATS,
         "chain"),
    Case("gelu_gradients", gradients(lambda x: (tf.nn.gelu(x), tf.nn.gelu(x, approximate=True),
                                                tf.nn.silu(x))), [normal(7, 9)], FLOATS, "chain"),
    Case("math_gradients", gradients(lambda x: (
        tf.exp(x), tf.math.log(x), tf.sqrt(x), tf.math.rsqrt(x), x / (x + 1), x ** 3., 1 / x,
        tf.square(x), tf.math.log1p(x), tf.math.expm1(x), tf.math.erf(x), tf.sin(x), tf.cos(x),
        tf.abs(x), tf.atan(x))), [uniform(7, 9, low=.3, high=2)], FLOATS, "chain"),
    Case("binary_gradients", gradients(lambda x, y: (
        x * y, x / y, x - y, x ** y, tf.maximum(x, y), tf.minimum(x, y),
        tf.math.squared_difference(x, y), tf.atan2(x, y))),
         [uniform(7, 9, low=.3, high=2), uniform(7, 1, low=.3, high=2)], FLOATS, "chain"),
]


def _encoder_layer(x, wq, wk, wv, wo, w1, b1, w2, b2, s1, o1, s2, o2):
    """A transformer encoder layer of 4 heads, normalised after each half."""
    batch, length, width = x.shape
    split = [batch, length, 4, width // 4]
    q, k, v = (tf.reshape(tf.einsum("btc,cd->btd", x, w), split) for w in (wq, wk, wv))
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) / tf.cast(np.sqrt(width // 4), x.dtype)
    mixed = tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), v)
    mixed = tf.einsum("btc,cd->btd", tf.reshape(mixed, [batch, length, width]), wo)
    x = _layer_norm(x + mixed, s1, o1)
    hidden = tf.nn.gelu(tf.einsum("btc,cd->btd", x, w1) + b1)
    return _layer_norm(x + tf.einsum("btc,cd->btd", hidden, w2) + b2, s2, o2)


_ENCODER = ([normal(2, 6, 16)] + [normal(16, 16, scale=.25)] * 4
            + [normal(16, 32, scale=.25), normal(32, scale=.1), normal(32, 16, scale=.2),
               normal(16, scale=.1)]
            + [uniform(16, low=.5, high=1.5), normal(16, scale=.1)] * 2)


def _residual_block(x, w1, s1, o1, w2, s2, o2):
    y = tf.nn.relu(_train(tf.nn.conv2d(x, w1, 1, "SAME"), s1, o1)[0])
    y = _train(tf.nn.conv2d(y, w2, 1, "SAME"), s2, o2)[0]
    return tf.nn.relu(x + y)


LAYERS = [
    Case("encoder_layer", _encoder_layer, _ENCODER, FLOATS, "network"),
    Case("encoder_layer_gradients", gradients(_encoder_layer), _ENCODER, FLOATS, "network"),
    Case("residual_block_gradients", gradients(_residual_block),
         [normal(2, 6, 6, 8), normal(3, 3, 8, 8, scale=.2), positive_floats(8), floats(8, scale=.1),
          normal(3, 3, 8, 8, scale=.2), positive_floats(8), floats(8, scale=.1)],
         FLOATS, "network"),
    Case("embedding", lambda t, i: tf.nn.embedding_lookup(t, i), [normal(20, 5),
                                                                  indices(3, 4, high=20)], FLOATS),
    Case("embedding_gradients", gradients(lambda t, i: tf.gather(t, i), 0),
         [normal(20, 5), indices(30, high=20)], FLOATS, "sum"),
    Case("mlp_gradients", gradients(lambda x, w, b, v: tf.nn.relu(x @ w + b) @ v),
         [normal(8, 12), normal(12, 16, scale=.3), normal(16), normal(16, 4, scale=.3)], FLOATS,
         "network"),
]

test_pool = differential(POOL)
test_normalise = differential(NORMALISE)
test_softmax = differential(SOFTMAX)
test_layers = differential(LAYERS)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    check_all(POOL[::7] + NORMALISE[::4] + SOFTMAX[::4] + LAYERS[1:4])
