"""Small programs whose compute sets have known names (tests/data/compute_sets.json says which)."""

import tensorflow.compat.v1 as tf
from program_parts import (
    compiled, convolution, descent, feed, on_ipu, ones, trained_calls, variable)
from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops, gen_poputil_ops
from tensorflow.python import ipu

# ---- non-linearities, elementwise ----

def sigmoid():
    return on_ipu(tf.sigmoid, feed(3))


def sigmoid_and_sum():
    return on_ipu(lambda x: tf.sigmoid(x) + x, feed(3))


def sigmoid_gradient():
    return on_ipu(lambda g, y: tf.raw_ops.SigmoidGrad(y=g, dy=y), feed(3), feed(3))


def relu():
    return on_ipu(tf.nn.relu, feed(3))


def relu_and_sum():
    return on_ipu(lambda x: tf.nn.relu(x) + x, feed(3))


def relu_of_concatenation():
    return on_ipu(lambda x: tf.nn.relu(tf.concat([x, x], 0)), feed(5))


def relu_gradient():
    return on_ipu(lambda g, x: tf.raw_ops.ReluGrad(gradients=g, features=x), feed(3), feed(3))


def relu_written_out():
    def network(x, rate):
        with tf.variable_scope("vs", use_resource=True):
            y = convolution(x, bias=True, name="a")
            y = tf.maximum(y, tf.zeros_like(y))
        loss = tf.reduce_sum(y)
        return loss, descent(loss, rate)
    return compiled(network, feed(1, 4, 4, 2), feed())


def tanh_in_loop():
    def network(x):
        return tf.while_loop(lambda i, x, y: i < 2,
                             lambda i, x, y: (i + 1, tf.tanh(x), tf.tanh(y)), (0, x, x),
                             name="")[1:]
    return compiled(network, feed(4))


def casts_around_a_sum():
    return on_ipu(lambda x: tf.cast(tf.cast(x, tf.float32) + 1.0, tf.float16),
                   feed(3, dtype=tf.float16))


def expression():
    return on_ipu(lambda a, b, c: (a + b * c) / (tf.transpose(a) * b + c),
                   feed(2, 2), feed(2, 2), feed())


def expression_of_slices():
    return on_ipu(lambda a, b, c: (a[:2] + b[:2]) / c + a[1:], feed(3), feed(3), feed())


def _scaled(function, *shapes, dtype=tf.float16):
    return on_ipu(function, *[feed(*shape, dtype=dtype) for shape in shapes])


def scaled_add():
    return _scaled(lambda a, b: a + b * 2.0, [3], [3])


def scaled_subtract():
    return _scaled(lambda a, b: a - 2.0 * b, [3], [3])


def scaled_add_by_input():
    return _scaled(lambda a, b, c: a + b * c, [3], [3], [1])


def scaled_subtract_by_input():
    return _scaled(lambda a, b, c: a - c * b, [3], [3], [1])


def scaled_both():
    return _scaled(lambda a, b: 2.0 * a + 3.0 * b, [3], [3])


def scaled_both_by_inputs():
    return _scaled(lambda a, b, c, d: c * a - d * b, [3], [3], [1], [1])


def _gelu(dtype):
    return on_ipu(lambda x: x / 2 * (1 + tf.math.erf(x / tf.sqrt(tf.constant(2.0, dtype)))),
                  feed(1000, dtype=dtype))


def gelu():
    return _gelu(tf.float32)


def gelu_of_halves():
    return _gelu(tf.float16)


def normalised_over_replicas():
    return on_ipu(lambda x: gen_poputil_ops.ipu_replication_normalise(x) + x, feed(1, 4, 4, 2))


def numbers_drawn():
    with tf.device("/device:IPU:0"):
        z = tf.get_variable("z1", [2, 4], initializer=tf.truncated_normal_initializer(),
                            use_resource=True)
    return z, {}


# ---- reductions ----

def sum_of_squares():
    return on_ipu(lambda x: tf.reduce_sum(x * x), feed(3))


def scaled_sum():
    return on_ipu(lambda x, scale: tf.reduce_sum(x) * scale, feed(2, 2, 2), feed())


def scaled_sum_of_rows():
    return on_ipu(lambda x: tf.reduce_sum(x, axis=[1, 2]) * 10.0, feed(2, 2, 2))


def sum_of_many_halves():
    return on_ipu(lambda x: tf.reduce_sum(x, axis=[0]), feed(4096, dtype=tf.float16))


def sum_of_reshaped_halves():
    return on_ipu(lambda x: tf.reduce_sum(tf.reshape(x, [4, 3]), axis=1),
                   feed(3, 4, dtype=tf.float16))


def two_sums_of_halves():
    def total(x):
        return tf.cast(tf.reduce_sum(tf.cast(x, tf.float32)), tf.float16)
    return on_ipu(lambda a, b: total(a) + total(b),
                   feed(3, dtype=tf.float16), feed(3, dtype=tf.float16))


def mean_of_halves():
    return on_ipu(lambda x: tf.reduce_mean(x, axis=[1]), feed(2, 10000, dtype=tf.float16))


def _biases_applied(rates):
    def network(*inputs):
        biases, gradients = inputs[:len(rates)], inputs[len(rates):]
        return sum((bias - tf.reduce_sum(gradient, axis=1) * rate
                    for bias, gradient, rate in zip(biases, gradients, rates)), 0.0)
    return on_ipu(network, *[feed(2) for _ in rates], *[feed(2, 10) for _ in rates])


def biases_applied():
    return _biases_applied([0.1, 0.2, 0.3])


# ---- convolutions, matmuls ----

def _convolution_and_bias(shape, kernel, strides, padding):
    x, w, b = feed(*shape), feed(*kernel), feed(kernel[-1])
    with tf.device("/device:IPU:0"):
        y = tf.nn.convolution(x, w, padding, strides=strides, name="window")
        return tf.nn.bias_add(y, b, name="bias"), ones(x, w, b)


def convolution_3x3():
    return _convolution_and_bias([1, 14, 14, 64], [3, 3, 64, 128], None, "SAME")


def convolution_8x8():
    return _convolution_and_bias([1, 84, 84, 4], [8, 8, 4, 16], [4, 4], "VALID")


def convolution_3x3x3():
    return _convolution_and_bias([1, 14, 14, 14, 16], [3, 3, 3, 16, 32], None, "SAME")


def convolution_backwards():
    return on_ipu(lambda w, g: tf.nn.conv2d_backprop_input([2, 8, 8, 3], w, g, [1, 1, 1, 1],
                                                            "SAME"),
                   feed(2, 2, 3, 5), feed(2, 8, 8, 5))


def filter_backwards():
    return on_ipu(lambda x, g: tf.nn.conv2d_backprop_filter(x, [2, 2, 3, 5], g, [1, 1, 1, 1],
                                                             "SAME"),
                   feed(2, 8, 8, 3), feed(2, 8, 8, 5))


def convolution_3d_backwards():
    return on_ipu(lambda w, g: tf.raw_ops.Conv3DBackpropInputV2(
        input_sizes=[2, 8, 8, 8, 3], filter=w, out_backprop=g, strides=[1] * 5, padding="SAME"),
        feed(2, 2, 2, 3, 5), feed(2, 8, 8, 8, 5))


def depthwise():
    return on_ipu(lambda x, w, b: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME") + b,
                   feed(1, 2, 2, 3), feed(1, 1, 3, 2), feed(6))


def depthwise_backwards():
    return on_ipu(lambda w, g: tf.nn.depthwise_conv2d_backprop_input(
        [1, 8, 8, 3], w, g, [1, 1, 1, 1], "SAME"), feed(3, 3, 3, 2), feed(1, 8, 8, 6))


def fully_connected():
    return on_ipu(tf.nn.xw_plus_b, feed(2, 2), feed(2, 2), feed(2))


def batched_matmul_and_bias():
    return on_ipu(lambda x, w, b: x @ w + b, feed(2, 2, 2), feed(2, 2), feed(2))


def normalised_convolution():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            y = convolution(x, bias=True)
            return tf.nn.relu(tf.layers.batch_normalization(y, fused=True))
    return compiled(network, feed(1, 4, 4, 2))


def _train_convolutions(bias=False, names=(None, None)):
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            for name in names:
                x = convolution(x, bias=bias, name=name)
        loss = tf.reduce_sum(x)
        return loss, descent(loss, 0.1)
    return compiled(network, feed(1, 4, 4, 2))


def convolutions_trained():
    return _train_convolutions(bias=True)


def three_convolutions_trained():
    return _train_convolutions(names=("conv1", "conv2", "conv3"))


def _two_convolutions(dtypes=(tf.float32, tf.float32), **second):
    x = feed(1, 4, 4, 2)
    with tf.device("/device:IPU:0"), tf.variable_scope("vs", use_resource=True):
        y = convolution(x)
        if dtypes[0] != dtypes[1]:
            y = tf.cast(y, dtypes[1])
        return convolution(y, **second), ones(x)


def equal_convolutions():
    return _two_convolutions()


def convolutions_of_two_types():
    return _two_convolutions(dtypes=(tf.float32, tf.float16))


def convolutions_of_two_strides():
    return _two_convolutions(strides=(2, 1))


def filters_applied():
    def network(*inputs):
        return sum((w - rate * tf.nn.conv2d_backprop_filter(x, [2, 2, 3, 5], g, [1, 1, 1, 1],
                                                            "SAME")
                    for w, x, g, rate in zip(inputs[:3], inputs[3:6], inputs[6:], (0.1, 0.2, 0.3))),
                   0.0)
    return on_ipu(network, *[feed(2, 2, 3, 5) for _ in range(3)],
                   *[feed(2, 8, 8, 3) for _ in range(3)], *[feed(2, 8, 8, 5) for _ in range(3)])


# ---- normalisations ----

def equal_batch_norms():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            for _ in range(2):
                x = tf.layers.batch_normalization(convolution(x), fused=True)
        return x
    return compiled(network, feed(1, 4, 4, 2))


def _group_norm(x):
    constant = tf.constant([.5, .5])
    return gen_popnn_ops.popnn_group_norm_inference(
        x, constant, constant, constant, constant, data_format="NHWC", epsilon=.0015, num_groups=2)


def equal_group_norms():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            return _group_norm(convolution(_group_norm(convolution(x))))
    return on_ipu(network, feed(1, 4, 4, 2))


def batch_norms_of_two_types():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            y = tf.layers.batch_normalization(convolution(x), fused=True)
            y = convolution(tf.cast(y, tf.float16))
            return tf.layers.batch_normalization(y, fused=True)
    return compiled(network, feed(1, 4, 4, 2))


def batch_norm_of_halves():
    def network(x):
        beta, gamma = variable("x", [4], tf.float16, 0.0), variable("y", [4], tf.float16)
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="moments")
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
    return compiled(network, feed(4, 64, 64, 4, dtype=tf.float16))


# ---- pooling ----

def max_pool():
    return on_ipu(lambda x: tf.nn.max_pool(x, [1, 5, 5, 1], [1, 2, 2, 1], "SAME", name="max"),
                   feed(1, 10, 10, 1))


def max_pool_and_gradient():
    def network(x, g):
        window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
        y = tf.nn.max_pool(x, **window)
        return y, tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **window)
    return on_ipu(network, feed(1, 4, 4, 1), feed(1, 2, 2, 1))


def mean_pool_of_all():
    return on_ipu(lambda x: tf.nn.avg_pool(x, [1, 10, 10, 1], [1, 1, 1, 1], "VALID", name="avg"),
                   feed(1, 10, 10, 1))


def mean_pool():
    return on_ipu(lambda x: tf.nn.avg_pool(x, [1, 5, 5, 1], [1, 2, 2, 1], "SAME", name="avg"),
                   feed(1, 10, 10, 1))


# ---- slices ----

def lookup_trained():
    def network(rows, labels, rate):
        with tf.variable_scope("vs", use_resource=True):
            w = variable("w", [10, 200], value=2.0)
            g = tf.nn.embedding_lookup(w, rows)
            loss = tf.reduce_mean(tf.losses.absolute_difference(labels, g))
        return loss, descent(loss, rate)
    return compiled(network, feed(10, dtype=tf.int32), feed(10, 200), feed())


def lookup():
    return compiled(tf.nn.embedding_lookup, feed(5, 10, dtype=tf.int32),
                     feed(5, dtype=tf.int32))


def masked_lookups():
    @ipu.outlined_function(keep_input_layouts=False)
    def part(table, rows, first, end):
        found = ipu.embedding_ops.embedding_lookup(table, rows - first)
        inside = tf.logical_and(tf.less(rows, end), tf.greater_equal(rows, first))
        return found * tf.expand_dims(tf.cast(inside, tf.float16), 1)

    def network(table, rows):
        total = part(table[:2000], rows, 0, 2000)
        for i in range(1, 10):
            total = tf.add(total, part(table[2000 * i:2000 * (i + 1)], rows, 2000 * i,
                                       2000 * (i + 1)), name=f"slice_{i}")
        return total
    return compiled(network, feed(20000, 128, dtype=tf.float16), feed(20, dtype=tf.int32))


# ---- functions, branches ----

def _outlined(scope, x, b):
    @ipu.outlined_function
    def function(x, b):
        with tf.variable_scope(scope):
            w = variable("w", [64, 64])
        return tf.sigmoid(tf.matmul(x, w) + b)
    return function(x, b)


def function_of_two_weights():
    def network(a, b, c):
        a = _outlined("one", a, b)
        return a - _outlined("two", a, c)
    return compiled(network, feed(64, 64), feed(64, 64), feed(64, 64))


def function_trained():
    @ipu.outlined_function
    def function(x, w, b):
        return tf.sigmoid(tf.matmul(x, w) + b)
    return trained_calls(function)


def function_of_two_types():
    @ipu.outlined_function
    def function(x):
        return tf.nn.relu(x)
    return compiled(lambda a, b, c: (function(a), function(b), function(c)),
                     feed(64, 64, dtype=tf.float16), feed(64, 64, dtype=tf.float16),
                     feed(64, 64))


def equal_branches():
    def network(x, z):
        def square():
            return tf.square(x, name="namef1")
        return tf.cond(tf.less(z[0], z[1]), square, square)
    return compiled(network, feed(2, 2, dtype=tf.int32), feed(2, dtype=tf.int32))


def equal_branches_with_random_numbers():
    def network(x, z):
        def draw():
            return x * 10 * tf.random_uniform([2, 2], 1, 9, tf.int32, name="namef1")
        return tf.cond(tf.less(z[0], z[1]), draw, draw)
    return compiled(network, feed(2, 2, dtype=tf.int32), feed(2, dtype=tf.int32))


# ---- several IPUs ----

def sums_on_two_ipus():
    def network(a, b, c):
        with ipu.scopes.ipu_shard(0):
            first = a + b
        with ipu.scopes.ipu_shard(1):
            return first + (a + c)
    return compiled(network, feed(2), feed(2), feed(2))
