"""Updates of variables by ops that are placed on an IPU without `compile`."""

import unittest

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import test_utils as tu

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def _train(device, optimizer, dtype=np.float32):
    """Losses of five steps, and the weights after them."""
    with tf.Graph().as_default():
        with tf.device(device), tf.variable_scope("v", use_resource=True):
            x = tf.placeholder(dtype, [4, 3])
            w = tf.get_variable("w", dtype=dtype, initializer=np.full([3, 2], 0.5, dtype))
            b = tf.get_variable("b", dtype=dtype, initializer=np.zeros([2], dtype))
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - 1))
            step = optimizer().minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            fed = np.random.RandomState(1).rand(4, 3).astype(dtype)
            losses = [session.run([loss, step], {x: fed})[0] for _ in range(5)]
            return np.array(losses), session.run(w)


@pytest.fixture(autouse=True)
def one_ipu():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_gives_what_it_gives_on_the_cpu(name):
    losses, weights = _train("/device:IPU:0", OPTIMIZERS[name])
    expected, expected_weights = _train("/device:CPU:0", OPTIMIZERS[name])
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-4)
    assert losses[4] < losses[0]


def test_halves():
    losses, weights = _train("/device:IPU:0", OPTIMIZERS["momentum"], np.float16)
    expected, expected_weights = _train("/device:CPU:0", OPTIMIZERS["momentum"])
    np.testing.assert_allclose(losses, expected, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(weights, expected_weights, rtol=0.02, atol=0.01)


def test_scatter_updates():
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        variable = tf.get_variable("v", use_resource=True,
                                   initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
        rows = tf.placeholder(tf.int32, [2])
        add = tf.scatter_add(variable, rows, tf.ones([2, 2]))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(add, {rows: [1, 1]})
            np.testing.assert_array_equal(session.run(variable),
                                          [[0, 1], [4, 5], [4, 5], [6, 7]])


def test_an_update_that_is_fetched_by_its_name():
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        variable = tf.get_variable("v", use_resource=True, initializer=[1.0, 2.0])
        update = tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=0.5, delta=[2.0, 2.0])
        with tf.Session() as session:
            session.run(variable.initializer)
            assert session.run(update) is None
            np.testing.assert_array_equal(session.run(variable), [0.0, 1.0])


def test_one_that_was_not_initialised_says_so():
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        variable = tf.get_variable("forgotten", use_resource=True, initializer=[1.0])
        update = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(variable * 2))
        with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError,
                                                    match="forgotten"):
            session.run(update)


def test_without_the_optimizer_of_graphs_it_says_what_to_do():
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.use_plugin_optimizers = 2  # OFF
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        variable = tf.get_variable("v", use_resource=True, initializer=[1.0])
        update = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(variable * 2))
        with tf.Session(config=config) as session:
            session.run(variable.initializer)
            with pytest.raises(tf.errors.UnimplementedError, match="use_plugin_optimizers"):
                session.run(update)


def test_an_assignment_before_it_is_seen():
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        variable = tf.get_variable("v", use_resource=True, initializer=[1.0])
        x = tf.placeholder(tf.float32, [1])
        with tf.control_dependencies([variable.assign([10.0])]):
            delta = x * 2
        update = tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=1.0, delta=delta)
        with tf.Session() as session:
            session.run(variable.initializer)
            for _ in range(3):
                session.run(update, {x: [1.0]})
                np.testing.assert_array_equal(session.run(variable), [8.0])


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adam", "ftrl"])
def test_a_step_of_training_is_one_program(name):
    check = unittest.TestCase()
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        x = y = tf.placeholder(tf.float32, [4, 3])
        for layer in range(3):
            with tf.variable_scope(f"layer{layer}", use_resource=True):
                w = tf.get_variable("w", initializer=np.eye(3, dtype=np.float32))
                y = tf.nn.relu(tf.matmul(y, w))
        loss = tf.reduce_mean(tf.square(y))
        step = OPTIMIZERS[name]().minimize(loss)
        with tf.Session() as session:
            report = tu.ReportJSON(check, session, execution_trace=False)
            session.run(tf.global_variables_initializer())
            report.reset()
            session.run([loss, step], {x: np.ones([4, 3])})
            assert report.parse_log()[tu.IpuTraceEvent.COMPILE_END] == 1
