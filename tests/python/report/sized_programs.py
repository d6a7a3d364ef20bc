"""Programs of which the memory is known (tests/data/profile_numbers.json says which;
docs/fidelity.md compares), from one layer to a short ResNet."""

import numpy as np
import tensorflow.compat.v1 as tf
from program_parts import compiled, descent, feed, on_ipu, ones, trained_calls, variable
from tensorflow.python import ipu

# ---- layers ----

def _layers(x, units=(32, 64, 64), dtype=tf.float16):
    with tf.variable_scope("all", use_resource=True):
        for number, width in enumerate(units):
            name = f"l{number}"
            w = tf.get_variable(name + "_w", [x.shape[1], width], dtype,
                                tf.truncated_normal_initializer(stddev=0.01), use_resource=True)
            x = tf.nn.relu(tf.nn.xw_plus_b(x, w, variable(name + "_b", [width], dtype, 0.0)))
    return x


def _layers_loss(rows, train):
    def network(x, y):
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=_layers(x), labels=tf.stop_gradient(y)))
        return descent(loss, 0.01) if train else loss
    return compiled(network, feed(rows, 112 * 112 * 4, dtype=tf.float16),
                     feed(rows, 64, dtype=tf.float16))


def three_layers():
    return _layers_loss(2, False)


def three_layers_trained():
    return _layers_loss(1, True)


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
            return tf.nn.xw_plus_b(x, w, variable("biases", [1000], tf.float16, 0.0))


def _resnet_loss(optimizer=None):
    def network(x, y):
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=_short_resnet(x), labels=tf.stop_gradient(y)))
        return loss if optimizer is None else optimizer.minimize(loss)
    return compiled(network, feed(1, 224, 224, 4, dtype=tf.float16),
                     feed(1, 1000, dtype=tf.float16))


def short_resnet():
    return _resnet_loss()


def short_resnet_trained():
    return _resnet_loss(tf.train.GradientDescentOptimizer(0.01))


def short_resnet_trained_with_momentum():
    return _resnet_loss(tf.train.MomentumOptimizer(0.01, 0.9))


def _resnet_in_loop(optimizer):
    def network(x, y):
        def body(x, label):
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
                logits=_short_resnet(x), labels=tf.stop_gradient(label)))
            return x, label, optimizer().minimize(loss)
        return ipu.loops.repeat(10, body, [x, y])
    return compiled(network, feed(1, 224, 224, 4, dtype=tf.float16),
                     feed(1, 1000, dtype=tf.float16))


def _momentum():
    return tf.train.MomentumOptimizer(0.01, 0.9)


def _plain():
    return tf.train.GradientDescentOptimizer(0.01)


def short_resnet_trained_in_loop():
    return _resnet_in_loop(_plain)


def short_resnet_with_momentum_in_loop():
    return _resnet_in_loop(_momentum)


def short_resnet_accumulated_in_loop():
    from tensorflow.python.ipu.optimizers import GradientAccumulationOptimizer
    return _resnet_in_loop(lambda: GradientAccumulationOptimizer(_plain(), 5))


def short_resnet_accumulated_with_momentum():
    from tensorflow.python.ipu.optimizers import GradientAccumulationOptimizer
    return _resnet_in_loop(lambda: GradientAccumulationOptimizer(_momentum(), 10))


def ten_layers():
    def network(x, y):
        for number in range(10):
            with tf.variable_scope(f"all/fc{number}"):
                w = tf.get_variable("weights", [x.shape[1], 256], tf.float16,
                                    tf.truncated_normal_initializer(stddev=0.01),
                                    use_resource=True)
                x = tf.nn.xw_plus_b(x, w, variable("biases", [256], tf.float16, 0.0))
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
            logits=x, labels=tf.stop_gradient(y)))
    return compiled(network, feed(16, 4, dtype=tf.float16), feed(16, 256, dtype=tf.float16))


def many_layers():
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        x = feed(2, 112 * 112 * 4, dtype=tf.float16)
        return _layers(x, [1400] * 20 + [4]), ones(x)


def matmul_in_parts():
    @ipu.outlined_function
    def part(x, y):
        return tf.matmul(x, y)

    def network(x, y, z):
        rows = 30522 // 6
        parts = [part(tf.slice(y, [number * rows, 0], [rows, 128]), z) for number in range(6)]
        return x + tf.concat(parts, 0)
    return compiled(network, feed(30522, 768, dtype=tf.float16),
                     feed(30522, 128, dtype=tf.float16), feed(128, 768, dtype=tf.float16))


def wide_constant():
    x = feed(1024, 2048)
    with tf.device("/device:IPU:0"):
        a = variable("a", [1024, 2048], value=2.0)
        return a + x + tf.constant(4.0, shape=[1024, 2048]), ones(x)


def padded_matmul():
    def network(a, b):
        with tf.variable_scope("vs", use_resource=True):
            w = variable("x", [1024, 1024], tf.float16, 0.0)
        return tf.matmul(tf.pad(a, [[0, 0], [23, 1]]) - b * 0.1, w, name="mm1")
    return compiled(network, feed(1024, 1000, dtype=tf.float16),
                     feed(1024, 1024, dtype=tf.float16))


def padded_result():
    def network(a, b):
        with tf.variable_scope("vs", use_resource=True):
            w = variable("x", [64, 64], tf.float16)
        a = tf.pad(tf.matmul(a, w, name="mm1"), [[0, 0], [4935, 1]], constant_values=64)
        return a + b
    return compiled(network, feed(64, 64, dtype=tf.float16),
                     feed(64, 5000, dtype=tf.float16))


def update_of_product():
    def network(x, updates, rows):
        from tensorflow.compiler.plugin.poplar.ops import gen_popops_ops
        with tf.variable_scope("vs", use_resource=True):
            left = variable("lhs", [1024, 16])
        return gen_popops_ops.ipu_multi_update_add(tf.matmul(left, x), updates=updates,
                                                   indices=rows, scale=1)
    return compiled(network, feed(16, 16), feed(1024, 16), feed(1024, dtype=tf.int32))


# ---- layouts ----

def convolutions_of_broadcasts():
    def network(x):
        wide, w = tf.broadcast_to(x, [2, 256, 256, 2]), tf.broadcast_to(x, [2, 2, 2, 2])
        y = tf.nn.conv2d(wide, w, strides=1, padding="SAME", name="a")
        return tf.nn.conv2d(y, w, strides=1, padding="SAME", name="b")
    return on_ipu(network, feed(2))


def matmul_of_broadcast():
    row, right = feed(1024, dtype=tf.float16), feed(1024, 1024, dtype=tf.float16)
    with tf.device("/device:IPU:0"):
        with tf.variable_scope("vs", use_resource=True):
            w = variable("x", [1024, 1024], tf.float16, 0.0)
        first = tf.matmul(tf.broadcast_to(row, [1024, 1024]), w, name="mm1")
        result = tf.matmul(right, first, name="mm2")
    ipu.utils.move_variable_initialization_to_cpu()
    return result, ones(row, right)


def slice_in_loop():
    shape = [512, 2, 2048]

    def network(y):
        def body(i, x, y):
            return (i + 1, x + tf.constant(1.0, shape=shape),
                    y + tf.reduce_mean(tf.slice(x, [i, i, i], [1, 1, 2048])))
        return tf.while_loop(lambda i, x, y: i < 2, body, (0, tf.constant(4.0, shape=shape), y),
                             name="")[2]
    return compiled(network, feed(1))


# ---- lookups ----

def _lookup_and_matmul(turned):
    def network(rows):
        with tf.variable_scope("embedding_and_matmul", use_resource=True):
            table = tf.get_variable("shared_weights", [20000, 128] if turned else [128, 20000],
                                    tf.float16)
        looked_up = ipu.embedding_ops.embedding_lookup(table if turned else tf.transpose(table),
                                                       rows)
        return tf.matmul(looked_up, table, transpose_b=turned)
    result = compiled(network, feed(50, dtype=tf.int32))
    ipu.utils.move_variable_initialization_to_cpu()
    return result


def lookup_and_turned_matmul():
    return _lookup_and_matmul(True)


def turned_lookup_and_matmul():
    return _lookup_and_matmul(False)


def _lookup_on_host(rows, columns, updates=1):
    from tensorflow.compiler.plugin.poplar.ops import gen_pop_datastream_ops as streams
    name = f"rows_of_{columns}"
    about = {"embedding_id": name, "embedding_shape": [rows, columns]}
    with tf.device("cpu"):
        table = tf.get_variable(name, [rows, columns], use_resource=True)

    def network(which):
        values = streams.ipu_device_embedding_lookup(which, dtype=tf.float32, **about)
        for _ in range(updates):
            streams.ipu_device_embedding_update_add(values, values, which, **about)
        return values
    tf.add_to_collection("before", table.initializer)
    tf.add_to_collection("before", streams.ipu_host_embedding_register(table, name))
    return compiled(network, feed(4096, dtype=tf.int32))


def lookup_of_short_rows():
    return _lookup_on_host(8192, 20)


def lookup_of_long_rows():
    return _lookup_on_host(8192, 200)


def lookup_with_two_updates():
    return _lookup_on_host(100000, 200, updates=2)


# ---- algebra ----

def _solve(lower, adjoint):
    a, b = feed(64, 64), feed(64, 64)
    with tf.device("/device:IPU:0"):
        x = tf.linalg.triangular_solve(a, b, lower=lower, adjoint=adjoint)
    return x, {a: np.eye(64), b: np.ones([64, 64])}


def solve_lower_adjoint():
    return _solve(True, True)


def solve_lower():
    return _solve(True, False)


def solve_upper_adjoint():
    return _solve(False, True)


def solve_upper():
    return _solve(False, False)


# ---- functions, constants ----

def function_of_functions_trained():
    def product(x, scope):
        @ipu.outlined_function
        def function(x):
            with tf.variable_scope(scope, use_resource=True):
                x = x @ variable("w", [64, 64])
                return x + variable("bias", [64])
        return function(x)

    def layer(x, scope):
        @ipu.outlined_function
        def function(x):
            return tf.sigmoid(product(x, scope))
        return function(x)

    def network(x, labels):
        x = layer(layer(x, "1"), "2")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=x, labels=labels))
        return x, descent(loss, 0.001)
    return compiled(network, feed(64, 64), feed(64, dtype=tf.int32))


def function_of_halves_trained():
    @ipu.outlined_function
    def function(x, w, b):
        left, right = tf.split(w, 2, -1)
        return tf.sigmoid(tf.concat([tf.matmul(x, left), tf.matmul(x, right)], axis=1) + b)
    return trained_calls(function)


def function_of_broadcasts():
    @ipu.outlined_function
    def function(x):
        return tf.sigmoid(x)
    return compiled(lambda a, b: function(tf.broadcast_to(a, [1024]))
                    - function(tf.broadcast_to(b, [1024])), feed(), feed())


def norms_of_broadcast():
    def network(x, y, z):
        scale = tf.broadcast_to(z, [65536])
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="moments")
        normalised = [tf.nn.fused_batch_norm(one, scale, scale, mean, variance, 1e-3,
                                             is_training=False, name=name)[0]
                      for one, name in ((x, "a"), (y, "b"))]
        return normalised[0] + normalised[1]
    shape = [1, 1, 1, 65536]
    with tf.device("/device:IPU:0"):
        inputs = [feed(*shape, dtype=tf.float16), feed(*shape, dtype=tf.float16),
                  feed(1, dtype=tf.float16)]
        return ipu.ipu_compiler.compile(network, inputs), ones(*inputs)
