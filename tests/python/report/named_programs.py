"""Small programs whose compute sets have known names (tests/data/compute_sets.json says which).

A program is a function that builds a graph and returns (what to fetch, what to feed). It is run
after the variables' initialisers, in a session of its own.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

# Of each program a function, by its name.
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def _feed(*shape, dtype=tf.float32):
    """A placeholder that is not on an IPU."""
    with tf.device("cpu"):
        return tf.placeholder(dtype, shape)


def _ones(*placeholders):
    return {one: np.ones(one.shape.as_list(), one.dtype.as_numpy_dtype) for one in placeholders}


def _on_ipu(function, *inputs):
    """Computed on the device, op by op placed."""
    with tf.device("/device:IPU:0"):
        return function(*inputs), _ones(*inputs)


def _compiled(function, *inputs):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(function, list(inputs)), _ones(*inputs)


def _variable(name, shape, dtype=tf.float32, value=1.0):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(value), use_resource=True)


def _convolution(x, filters=2, kernel=1, bias=False, name=None, **more):
    return tf.layers.conv2d(x, filters, kernel, use_bias=bias, name=name,
                            kernel_initializer=tf.ones_initializer(), **more)


def _descent(loss, rate=0.1):
    return tf.train.GradientDescentOptimizer(rate).minimize(loss)


# ---- non-linearities, elementwise ----

@program
def sigmoid():
    return _on_ipu(tf.sigmoid, _feed(3))


@program
def sigmoid_and_sum():
    return _on_ipu(lambda x: tf.sigmoid(x) + x, _feed(3))


@program
def sigmoid_gradient():
    return _on_ipu(lambda g, y: tf.raw_ops.SigmoidGrad(y=g, dy=y), _feed(3), _feed(3))


@program
def relu():
    return _on_ipu(tf.nn.relu, _feed(3))


@program
def relu_and_sum():
    return _on_ipu(lambda x: tf.nn.relu(x) + x, _feed(3))


@program
def relu_of_concatenation():
    return _on_ipu(lambda x: tf.nn.relu(tf.concat([x, x], 0)), _feed(5))


@program
def relu_gradient():
    return _on_ipu(lambda g, x: tf.raw_ops.ReluGrad(gradients=g, features=x), _feed(3), _feed(3))


@program
def relu_written_out():
    def network(x, rate):
        with tf.variable_scope("vs", use_resource=True):
            y = _convolution(x, bias=True, name="a")
            y = tf.maximum(y, tf.zeros_like(y))
        loss = tf.reduce_sum(y)
        return loss, _descent(loss, rate)
    return _compiled(network, _feed(1, 4, 4, 2), _feed())


@program
def tanh_in_loop():
    def network(x):
        return tf.while_loop(lambda i, x, y: i < 2,
                             lambda i, x, y: (i + 1, tf.tanh(x), tf.tanh(y)), (0, x, x),
                             name="")[1:]
    return _compiled(network, _feed(4))


@program
def casts_around_a_sum():
    return _on_ipu(lambda x: tf.cast(tf.cast(x, tf.float32) + 1.0, tf.float16),
                   _feed(3, dtype=tf.float16))


@program
def expression():
    return _on_ipu(lambda a, b, c: (a + b * c) / (tf.transpose(a) * b + c),
                   _feed(2, 2), _feed(2, 2), _feed())


@program
def expression_of_slices():
    return _on_ipu(lambda a, b, c: (a[:2] + b[:2]) / c + a[1:], _feed(3), _feed(3), _feed())


def _scaled(function, *shapes, dtype=tf.float16):
    return _on_ipu(function, *[_feed(*shape, dtype=dtype) for shape in shapes])


@program
def scaled_add():
    return _scaled(lambda a, b: a + b * 2.0, [3], [3])


@program
def scaled_subtract():
    return _scaled(lambda a, b: a - 2.0 * b, [3], [3])


@program
def scaled_add_by_input():
    return _scaled(lambda a, b, c: a + b * c, [3], [3], [1])


@program
def scaled_subtract_by_input():
    return _scaled(lambda a, b, c: a - c * b, [3], [3], [1])


@program
def scaled_both():
    return _scaled(lambda a, b: 2.0 * a + 3.0 * b, [3], [3])


@program
def scaled_both_by_inputs():
    return _scaled(lambda a, b, c, d: c * a - d * b, [3], [3], [1], [1])


# ---- reductions ----

@program
def sum_of_squares():
    return _on_ipu(lambda x: tf.reduce_sum(x * x), _feed(3))


@program
def scaled_sum():
    return _on_ipu(lambda x, scale: tf.reduce_sum(x) * scale, _feed(2, 2, 2), _feed())


@program
def scaled_sum_of_rows():
    return _on_ipu(lambda x: tf.reduce_sum(x, axis=[1, 2]) * 10.0, _feed(2, 2, 2))


@program
def sum_of_many_halves():
    return _on_ipu(lambda x: tf.reduce_sum(x, axis=[0]), _feed(4096, dtype=tf.float16))


@program
def sum_of_reshaped_halves():
    return _on_ipu(lambda x: tf.reduce_sum(tf.reshape(x, [4, 3]), axis=1),
                   _feed(3, 4, dtype=tf.float16))


@program
def two_sums_of_halves():
    def total(x):
        return tf.cast(tf.reduce_sum(tf.cast(x, tf.float32)), tf.float16)
    return _on_ipu(lambda a, b: total(a) + total(b),
                   _feed(3, dtype=tf.float16), _feed(3, dtype=tf.float16))


@program
def mean_of_halves():
    return _on_ipu(lambda x: tf.reduce_mean(x, axis=[1]), _feed(2, 10000, dtype=tf.float16))


def _biases_applied(rates):
    def network(*inputs):
        biases, gradients = inputs[:len(rates)], inputs[len(rates):]
        return sum((bias - tf.reduce_sum(gradient, axis=1) * rate
                    for bias, gradient, rate in zip(biases, gradients, rates)), 0.0)
    return _on_ipu(network, *[_feed(2) for _ in rates], *[_feed(2, 10) for _ in rates])


@program
def biases_applied():
    return _biases_applied([0.1, 0.2, 0.3])


# ---- convolutions, matmuls ----

def _convolution_and_bias(shape, kernel, strides, padding):
    x, w, b = _feed(*shape), _feed(*kernel), _feed(kernel[-1])
    with tf.device("/device:IPU:0"):
        y = tf.nn.convolution(x, w, padding, strides=strides, name="window")
        return tf.nn.bias_add(y, b, name="bias"), _ones(x, w, b)


@program
def convolution_3x3():
    return _convolution_and_bias([1, 14, 14, 64], [3, 3, 64, 128], None, "SAME")


@program
def convolution_8x8():
    return _convolution_and_bias([1, 84, 84, 4], [8, 8, 4, 16], [4, 4], "VALID")


@program
def convolution_3x3x3():
    return _convolution_and_bias([1, 14, 14, 14, 16], [3, 3, 3, 16, 32], None, "SAME")


@program
def convolution_backwards():
    return _on_ipu(lambda w, g: tf.nn.conv2d_backprop_input([2, 8, 8, 3], w, g, [1, 1, 1, 1],
                                                            "SAME"),
                   _feed(2, 2, 3, 5), _feed(2, 8, 8, 5))


@program
def filter_backwards():
    return _on_ipu(lambda x, g: tf.nn.conv2d_backprop_filter(x, [2, 2, 3, 5], g, [1, 1, 1, 1],
                                                             "SAME"),
                   _feed(2, 8, 8, 3), _feed(2, 8, 8, 5))


@program
def convolution_3d_backwards():
    return _on_ipu(lambda w, g: tf.raw_ops.Conv3DBackpropInputV2(
        input_sizes=[2, 8, 8, 8, 3], filter=w, out_backprop=g, strides=[1] * 5, padding="SAME"),
        _feed(2, 2, 2, 3, 5), _feed(2, 8, 8, 8, 5))


@program
def depthwise():
    return _on_ipu(lambda x, w, b: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME") + b,
                   _feed(1, 2, 2, 3), _feed(1, 1, 3, 2), _feed(6))


@program
def fully_connected():
    return _on_ipu(tf.nn.xw_plus_b, _feed(2, 2), _feed(2, 2), _feed(2))


@program
def batched_matmul_and_bias():
    return _on_ipu(lambda x, w, b: x @ w + b, _feed(2, 2, 2), _feed(2, 2), _feed(2))


@program
def normalised_convolution():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            y = _convolution(x, bias=True)
            return tf.nn.relu(tf.layers.batch_normalization(y, fused=True))
    return _compiled(network, _feed(1, 4, 4, 2))


def _train_convolutions(rate, bias=False, names=(None, None)):
    def network(x, rate):
        with tf.variable_scope("vs", use_resource=True):
            for name in names:
                x = _convolution(x, bias=bias, name=name)
        loss = tf.reduce_sum(x)
        return loss, _descent(loss, rate)
    x = _feed(1, 4, 4, 2)
    if rate is None:
        return _compiled(network, x, _feed())
    return _compiled(lambda x: network(x, rate), x)


@program
def convolutions_trained():
    return _train_convolutions(0.1, bias=True)


@program
def three_convolutions_trained():
    return _train_convolutions(0.1, names=("conv1", "conv2", "conv3"))


def _two_convolutions(between=None, dtypes=(tf.float32, tf.float32), **second):
    x = _feed(1, 4, 4, 2)
    with tf.device("/device:IPU:0"), tf.variable_scope("vs", use_resource=True):
        y = _convolution(x)
        if dtypes[0] != dtypes[1]:
            y = tf.cast(y, dtypes[1])
        if between is not None:
            y = tf.reshape(y, between)
        return _convolution(y, **second), _ones(x)


@program
def equal_convolutions():
    return _two_convolutions()


@program
def convolutions_of_two_types():
    return _two_convolutions(dtypes=(tf.float32, tf.float16))


@program
def convolutions_of_two_strides():
    return _two_convolutions(strides=(2, 1))


@program
def filters_applied():
    def network(*inputs):
        return sum((w - rate * tf.nn.conv2d_backprop_filter(x, [2, 2, 3, 5], g, [1, 1, 1, 1],
                                                            "SAME")
                    for w, x, g, rate in zip(inputs[:3], inputs[3:6], inputs[6:], (0.1, 0.2, 0.3))),
                   0.0)
    return _on_ipu(network, *[_feed(2, 2, 3, 5) for _ in range(3)],
                   *[_feed(2, 8, 8, 3) for _ in range(3)], *[_feed(2, 8, 8, 5) for _ in range(3)])


@program
def convolutions_of_broadcasts():
    def network(x):
        wide, w = tf.broadcast_to(x, [2, 256, 256, 2]), tf.broadcast_to(x, [2, 2, 2, 2])
        y = tf.nn.conv2d(wide, w, strides=1, padding="SAME", name="a")
        return tf.nn.conv2d(y, w, strides=1, padding="SAME", name="b")
    return _on_ipu(network, _feed(2))


@program
def matmul_of_broadcast():
    row, right = _feed(1024, dtype=tf.float16), _feed(1024, 1024, dtype=tf.float16)
    with tf.device("/device:IPU:0"):
        with tf.variable_scope("vs", use_resource=True):
            w = _variable("x", [1024, 1024], tf.float16, 0.0)
        first = tf.matmul(tf.broadcast_to(row, [1024, 1024]), w, name="mm1")
        result = tf.matmul(right, first, name="mm2")
    ipu.utils.move_variable_initialization_to_cpu()
    return result, _ones(row, right)


# ---- normalisations ----

@program
def equal_batch_norms():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            for _ in range(2):
                x = tf.layers.batch_normalization(_convolution(x), fused=True)
        return x
    return _compiled(network, _feed(1, 4, 4, 2))


@program
def batch_norms_of_two_types():
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            y = tf.layers.batch_normalization(_convolution(x), fused=True)
            y = _convolution(tf.cast(y, tf.float16))
            return tf.layers.batch_normalization(y, fused=True)
    return _compiled(network, _feed(1, 4, 4, 2))


@program
def batch_norm_of_halves():
    def network(x):
        beta, gamma = _variable("x", [4], tf.float16, 0.0), _variable("y", [4], tf.float16)
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="moments")
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
    return _compiled(network, _feed(4, 64, 64, 4, dtype=tf.float16))


def _group_norms(x, function, **more):
    from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops
    halves = {name: tf.constant([0.5, 0.5]) for name in ("gamma", "beta", *more)}
    with tf.variable_scope("vs", use_resource=True):
        for name in ("conv1", "conv2", "conv3"):
            x = getattr(gen_popnn_ops, function)(
                inputs=_convolution(x, name=name), data_format="NHWC", epsilon=0.0015,
                num_groups=2, **halves)
            x = x[0] if isinstance(x, (tuple, list)) else x
    return x


# ---- pooling ----

@program
def max_pool():
    return _on_ipu(lambda x: tf.nn.max_pool(x, [1, 5, 5, 1], [1, 2, 2, 1], "SAME", name="max"),
                   _feed(1, 10, 10, 1))


@program
def max_pool_and_gradient():
    def network(x, g):
        window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
        y = tf.nn.max_pool(x, **window)
        return y, tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **window)
    return _on_ipu(network, _feed(1, 4, 4, 1), _feed(1, 2, 2, 1))


@program
def mean_pool_of_all():
    return _on_ipu(lambda x: tf.nn.avg_pool(x, [1, 10, 10, 1], [1, 1, 1, 1], "VALID", name="avg"),
                   _feed(1, 10, 10, 1))


@program
def mean_pool():
    return _on_ipu(lambda x: tf.nn.avg_pool(x, [1, 5, 5, 1], [1, 2, 2, 1], "SAME", name="avg"),
                   _feed(1, 10, 10, 1))


# ---- slices ----

@program
def lookup_trained():
    def network(rows, labels, rate):
        with tf.variable_scope("vs", use_resource=True):
            w = _variable("w", [10, 200], value=2.0)
            g = tf.nn.embedding_lookup(w, rows)
            loss = tf.reduce_mean(tf.losses.absolute_difference(labels, g))
        return loss, _descent(loss, rate)
    return _compiled(network, _feed(10, dtype=tf.int32), _feed(10, 200), _feed())


@program
def lookup():
    return _compiled(tf.nn.embedding_lookup, _feed(5, 10, dtype=tf.int32),
                     _feed(5, dtype=tf.int32))


@program
def slice_in_loop():
    shape = [512, 2, 2048]

    def network(y):
        def body(i, x, y):
            return (i + 1, x + tf.constant(1.0, shape=shape),
                    y + tf.reduce_mean(tf.slice(x, [i, i, i], [1, 1, 2048])))
        return tf.while_loop(lambda i, x, y: i < 2, body, (0, tf.constant(4.0, shape=shape), y),
                             name="")[2]
    return _compiled(network, _feed(1))


@program
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
    return _compiled(network, _feed(20000, 128, dtype=tf.float16), _feed(20, dtype=tf.int32))


# ---- random numbers ----

def _initialised(initializer, shape=()):
    with tf.device("/device:IPU:0"), tf.variable_scope("vs", use_resource=True):
        z = tf.get_variable("z1", shape, tf.float32, initializer, use_resource=True)
    return z.initializer, {}


# ---- recurrent layers ----

def _lstms(steps):
    from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops

    def network(label, *inputs):
        logits = 0.0
        for number, x in enumerate(inputs):
            with tf.variable_scope(f"lstm_layer{number}"):
                y, *_ = gen_popnn_ops.popnn_lstm_layer(
                    inputs=x, num_channels=4, is_training=True, activation="tanh",
                    recurrent_activation="sigmoid", name=f"layer{number}",
                    kernel=_variable("kernel", [7, 16]), biases=_variable("biases", [4, 4]),
                    input_h_state=_variable("h", [1, 4], value=0.1),
                    input_c_state=_variable("c", [1, 4], value=0.2))
            logits += tf.reduce_mean(y, axis=0)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=logits, labels=label))
        return loss, _descent(loss, 0.01)
    return _compiled(network, _feed(1, dtype=tf.int32), *[_feed(n, 1, 3) for n in steps])


# ---- functions, branches ----

def _outlined(scope, x, b):
    @ipu.outlined_function
    def function(x, b):
        with tf.variable_scope(scope):
            w = _variable("w", [64, 64])
        return tf.sigmoid(tf.matmul(x, w) + b)
    return function(x, b)


@program
def function_of_two_weights():
    def network(a, b, c):
        a = _outlined("one", a, b)
        return a - _outlined("two", a, c)
    return _compiled(network, _feed(64, 64), _feed(64, 64), _feed(64, 64))


@program
def function_trained():
    @ipu.outlined_function
    def function(x, w, b):
        return tf.sigmoid(tf.matmul(x, w) + b)

    def network(a, b, c, labels):
        with tf.variable_scope("vs", use_resource=True):
            weights = [_variable(name, [64, 64]) for name in ("w0", "w1")]
        a = function(a, weights[0], b)
        a = a - function(a, weights[1], c)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=a, labels=labels))
        return a, _descent(loss, 0.001)
    return _compiled(network, _feed(64, 64), _feed(64, 64), _feed(64, 64),
                     _feed(64, dtype=tf.int32))


@program
def function_of_two_types():
    @ipu.outlined_function
    def function(x):
        return tf.nn.relu(x)
    return _compiled(lambda a, b, c: (function(a), function(b), function(c)),
                     _feed(64, 64, dtype=tf.float16), _feed(64, 64, dtype=tf.float16),
                     _feed(64, 64))


@program
def equal_branches():
    def network(x, z):
        def square():
            return tf.square(x, name="namef1")
        return tf.cond(tf.less(z[0], z[1]), square, square)
    return _compiled(network, _feed(2, 2, dtype=tf.int32), _feed(2, dtype=tf.int32))


@program
def equal_branches_with_random_numbers():
    def network(x, z):
        def draw():
            return x * 10 * tf.random_uniform([2, 2], 1, 9, tf.int32, name="namef1")
        return tf.cond(tf.less(z[0], z[1]), draw, draw)
    return _compiled(network, _feed(2, 2, dtype=tf.int32), _feed(2, dtype=tf.int32))


# ---- sizes ----

def _layers(x, dtype=tf.float16):
    with tf.variable_scope("all", use_resource=True):
        for name, units in (("l1", 32), ("l2", 64), ("l3", 64)):
            w = tf.get_variable(name + "_w", [x.shape[1], units], dtype, use_resource=True)
            x = tf.nn.relu(tf.nn.xw_plus_b(x, w, _variable(name + "_b", [units], dtype, 0.0)))
    return x


def _layers_loss(rows, train):
    def network(x, y):
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=_layers(x), labels=tf.stop_gradient(y)))
        return _descent(loss, 0.01) if train else loss
    return _compiled(network, _feed(rows, 112 * 112 * 4, dtype=tf.float16),
                     _feed(rows, 64, dtype=tf.float16))


@program
def three_layers():
    return _layers_loss(2, False)


@program
def three_layers_trained():
    return _layers_loss(1, True)


@program
def three_layers_trained_on_two():
    return _layers_loss(2, True)


def _window(x, kernel, stride, filters):
    w = tf.get_variable("weights", [kernel, kernel, x.shape[-1], filters], tf.float16,
                        tf.truncated_normal_initializer(stddev=0.1), use_resource=True)
    b = tf.get_variable("biases", [filters], tf.float16, tf.zeros_initializer(),
                        use_resource=True)
    return tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME") + b


def _short_resnet(x):
    with tf.variable_scope("all", use_resource=True):
        x = tf.nn.relu(_window(x, 7, 2, 64))
        x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
        for number in range(2):
            before = x
            with tf.variable_scope(f"b1/{number}/1"):
                x = tf.nn.relu(_window(x, 3, 1, 64))
            with tf.variable_scope(f"b1/{number}/2"):
                x = tf.nn.relu(_window(x, 3, 1, 64) + before)
        x = tf.nn.max_pool(x, [1, x.shape[1], x.shape[2], 1], [1, 1, 1, 1], "VALID")
        x = tf.reshape(x, [x.shape[0], x.shape[3]])
        with tf.variable_scope("fc1"):
            w = tf.get_variable("weights", [64, 1000], tf.float16,
                                tf.truncated_normal_initializer(stddev=0.01), use_resource=True)
            return tf.nn.xw_plus_b(x, w, _variable("biases", [1000], tf.float16, 0.0))


def _resnet_loss(optimizer=None):
    def network(x, y):
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=_short_resnet(x), labels=tf.stop_gradient(y)))
        return loss if optimizer is None else optimizer.minimize(loss)
    return _compiled(network, _feed(1, 224, 224, 4, dtype=tf.float16),
                     _feed(1, 1000, dtype=tf.float16))


@program
def short_resnet():
    return _resnet_loss()


@program
def short_resnet_trained():
    return _resnet_loss(tf.train.GradientDescentOptimizer(0.01))


@program
def short_resnet_trained_with_momentum():
    return _resnet_loss(tf.train.MomentumOptimizer(0.01, 0.9))


@program
def short_resnet_trained_in_loop():
    def network(x, y):
        def body(x, label):
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
                logits=_short_resnet(x), labels=tf.stop_gradient(label)))
            return x, label, tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        return ipu.loops.repeat(10, body, [x, y])
    return _compiled(network, _feed(1, 224, 224, 4, dtype=tf.float16),
                     _feed(1, 1000, dtype=tf.float16))


@program
def ten_layers():
    def network(x, y):
        for number in range(10):
            with tf.variable_scope(f"all/fc{number}"):
                w = tf.get_variable("weights", [x.shape[1], 256], tf.float16,
                                    tf.truncated_normal_initializer(stddev=0.01),
                                    use_resource=True)
                x = tf.nn.xw_plus_b(x, w, _variable("biases", [256], tf.float16, 0.0))
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=x, labels=tf.stop_gradient(y)))
    return _compiled(network, _feed(16, 4, dtype=tf.float16), _feed(16, 256, dtype=tf.float16))


@program
def wide_constant():
    x = _feed(1024, 2048)
    with tf.device("/device:IPU:0"):
        a = _variable("a", [1024, 2048], value=2.0)
        return a + x + tf.constant(4.0, shape=[1024, 2048]), _ones(x)


@program
def padded_matmul():
    def network(a, b):
        with tf.variable_scope("vs", use_resource=True):
            w = _variable("x", [1024, 1024], tf.float16, 0.0)
        return tf.matmul(tf.pad(a, [[0, 0], [23, 1]]) - b * 0.1, w, name="mm1")
    return _compiled(network, _feed(1024, 1000, dtype=tf.float16),
                     _feed(1024, 1024, dtype=tf.float16))


@program
def padded_result():
    def network(a, b):
        with tf.variable_scope("vs", use_resource=True):
            w = _variable("x", [64, 64], tf.float16)
        a = tf.pad(tf.matmul(a, w, name="mm1"), [[0, 0], [4935, 1]], constant_values=64)
        return a + b
    return _compiled(network, _feed(64, 64, dtype=tf.float16),
                     _feed(64, 5000, dtype=tf.float16))


@program
def update_of_product():
    def network(x, updates, rows):
        from tensorflow.compiler.plugin.poplar.ops import gen_popops_ops
        with tf.variable_scope("vs", use_resource=True):
            left = _variable("lhs", [1024, 16])
        return gen_popops_ops.ipu_multi_update_add(tf.matmul(left, x), updates=updates,
                                                   indices=rows, scale=1)
    return _compiled(network, _feed(16, 16), _feed(1024, 16), _feed(1024, dtype=tf.int32))


# ---- running them ----

def run(function, tiles=0, code=False, ipus=1):
    """Runs a program in a session of its own, in the default graph; returns its profile. `tiles`: of
    the IPU that is planned for, 0: all; `code`: count it in memory."""
    import pva
    from tensorflow.python.ipu import test_utils
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.ipu_model.tiles_per_ipu = tiles
    config.ipu_model.compile_ipu_code = code
    helper = test_utils.ReportHelper()
    helper.set_autoreport_options(config)
    config.configure_ipu_system()
    with tf.Session() as session:
        fetch, feed = function()
        session.run(tf.global_variables_initializer())
        helper.clear_reports()
        session.run(fetch, feed)
    return pva.openReport(helper.find_report())
