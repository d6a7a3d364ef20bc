"""Recurrent networks, other loops and conditions in compiled parts, and their gradients: every
program trains as TensorFlow's own kernels train it on the CPU."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

BATCH, TIME, WIDTH = 4, 6, 3


def weights():
    return tf.get_variable("w", [WIDTH, WIDTH], use_resource=True)


def dynamic(cell):
    return lambda x: tf.nn.dynamic_rnn(cell(), x, dtype=tf.float32)[0]


def static(x):
    cell = tf.nn.rnn_cell.BasicLSTMCell(5)
    return tf.stack(tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)[0])


def lengths(x):
    return tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(5), x, tf.constant([1, 6, 3, 2]),
                             dtype=tf.float32)[0]


def stacked():
    return tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(5), tf.nn.rnn_cell.GRUCell(4)])


def scan(x):
    w = weights()
    return tf.scan(lambda a, e: tf.tanh(a @ w + e), tf.transpose(x, [1, 0, 2]),
                   tf.zeros([BATCH, WIDTH]))


def mapped(x):
    w = weights()
    return tf.map_fn(lambda e: tf.tanh(e @ w), x)


def while_loop(x):
    w = weights()
    return tf.while_loop(lambda i, a: i < 5, lambda i, a: [i + 1, tf.tanh(a @ w)], [0, x[:, 0]],
                         maximum_iterations=5)[1]


def arrays(x):
    w = weights()
    read = tf.TensorArray(tf.float32, TIME).unstack(tf.transpose(x, [1, 0, 2]))
    written = tf.TensorArray(tf.float32, TIME)
    return tf.while_loop(lambda i, a: i < TIME,
                         lambda i, a: [i + 1, a.write(i, tf.tanh(read.read(i) @ w))],
                         [0, written], maximum_iterations=TIME)[1].stack()


def condition(x):
    w = weights()
    return tf.cond(tf.reduce_sum(x) > 0., lambda: tf.tanh(x[:, 0] @ w), lambda: x[:, 1] @ w)


def keras(x):
    return tf.keras.layers.LSTM(5, return_sequences=True)(x)


NETWORKS = {
    "lstm": dynamic(lambda: tf.nn.rnn_cell.BasicLSTMCell(5)),
    "gru": dynamic(lambda: tf.nn.rnn_cell.GRUCell(5)), "stacked": dynamic(stacked),
    "static": static, "lengths": lengths, "scan": scan, "map": mapped, "while": while_loop,
    "arrays": arrays, "condition": condition, "keras": keras,
}
OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(.05),
    "momentum": lambda: tf.train.MomentumOptimizer(.02, .9),
    "adam": lambda: tf.train.AdamOptimizer(.01),
}


def losses(network, optimizer, steps, place):
    """The loss before each of `steps` steps; `place(step, x)` makes the tensor of a step."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("cpu"):
            x = tf.placeholder(tf.float32, [BATCH, TIME, WIDTH])

        def step(x):
            loss = tf.reduce_mean(tf.square(network(x) - .5))
            with tf.control_dependencies([loss, optimizer().minimize(loss)]):
                return tf.identity(loss)

        loss = place(step, x)
        session.run(tf.global_variables_initializer())
        for one in tf.trainable_variables():
            one.load(random.randn(*one.shape.as_list()).astype(np.float32) * .3, session)
        inputs = random.randn(BATCH, TIME, WIDTH)
        return np.array([session.run(loss, {x: inputs}) for _ in range(steps)])


def compare(name, optimizer, steps):
    def on_ipu(step, x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(step, [x])[0]

    ours = losses(NETWORKS[name], OPTIMIZERS[optimizer], steps, on_ipu)
    theirs = losses(NETWORKS[name], OPTIMIZERS[optimizer], steps, lambda step, x: step(x))
    assert theirs[-1] < theirs[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_of_an_lstm(optimizer):
    compare("lstm", optimizer, 20)


@pytest.mark.parametrize("name", [one for one in NETWORKS if one != "lstm"])
def test_training_of(name):
    compare(name, "descent", 4)


def test_lstm_inside_a_loop(on_ipu, session):
    """As programs train: the whole loop of steps is one program."""
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [BATCH, TIME, WIDTH])

    def program(x):
        def body(first, last):
            with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
                output = NETWORKS["lstm"](x)
            loss = tf.reduce_mean(tf.square(output - .5))
            train = tf.train.MomentumOptimizer(.1, .9).minimize(loss)
            return tf.where(first < 0., loss, first), loss, train
        return ipu.loops.repeat(20, body, [-1., 0.])

    result = on_ipu(program, [x])
    with session() as s:
        s.run(tf.global_variables_initializer())
        first, last = s.run(result, {x: np.random.RandomState(0).randn(BATCH, TIME, WIDTH)})
    assert last < .8 * first


def test_the_gradient_of_a_loop(on_ipu, session):
    """y = a^5 x: dy/dx = a^5 = 32, dy/da = 5 a^4 x = 240 at x = 3."""
    def program(x):
        with tf.variable_scope("g", use_resource=True):
            a = tf.get_variable("a", initializer=2.0)
        y = ipu.loops.repeat(5, lambda value: a * value, [x])
        return [y, *tf.gradients(y, [x, a])]

    x = tf.placeholder(tf.float32, [])
    results = on_ipu(program, [x])
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(results, {x: 3.0}), [96.0, 32.0, 240.0])
