"""What is placed on an IPU without `compile` is as many programs as in the original: a step of
training, with all that it does to variables, is one; what needs no device has no report.
"""

import os

import numpy as np
import pva
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python import ipu
from tensorflow.python.ipu import test_utils as tu

IMAGE = (1, 4, 4, 2)


@pytest.fixture
def reports():
    """A ReportHelper that gets the profiles of the test's programs."""
    helper = tu.ReportHelper()
    _configure(helper)
    yield helper
    _configure()


def _configure(helper=None):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    if helper:
        helper.set_autoreport_options(config)
    config.configure_ipu_system()


def _placeholder(shape, dtype=tf.float32):
    with tf.device("cpu"):
        return tf.placeholder(dtype, shape)


def _initializer(index=0):
    return lambda shape, dtype=tf.float32, **_: tf.constant(
        np.random.RandomState(index).rand(*shape) - 0.5, dtype)


def _dense(x, units, activation=None):
    return tf.layers.dense(x, units, activation, kernel_initializer=_initializer())


# ---- Graphs: each gives what to run, and what to feed ----

def norms_with_updates():
    x = y = _placeholder(IMAGE)
    for number in range(2):
        y = tf.layers.conv2d(y, 2, 1, use_bias=False, kernel_initializer=_initializer(number))
        y = tf.nn.relu(tf.layers.batch_normalization(y, training=True))
    loss = tf.reduce_mean(tf.square(y - 1.))
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    return [loss, train], {x: np.random.RandomState(1).rand(*IMAGE)}


def clipped_gradients_and_decay():
    x = _placeholder([4, 3])
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 10, 0.9)
    y = _dense(_dense(x, 5, tf.nn.tanh), 2)
    loss = tf.reduce_mean(tf.square(y - 1.))
    optimizer = tf.train.FtrlOptimizer(rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 1.)
    train = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    return [loss, train, rate], {x: np.random.RandomState(1).rand(4, 3)}


def embeddings():
    words = _placeholder([5], tf.int32)
    table = tf.get_variable("table", [10, 4], initializer=_initializer())
    y = _dense(tf.nn.embedding_lookup(table, words), 2)
    loss = tf.reduce_mean(tf.square(y - 1.))
    return [loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)], {words: [1, 2, 3, 1, 0]}


def moving_averages():
    x = _placeholder([4, 3])
    w = tf.get_variable("w", [3, 2], initializer=_initializer())
    loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w))))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    averages = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([train]):
        return [loss, averages.apply([w])], {x: np.random.RandomState(1).rand(4, 3)}


def written_read_and_written_again():
    x = _placeholder([3])
    v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
    with tf.control_dependencies([v.assign(x * 2.), w.assign_sub(x)]):
        between = v.read_value() + w.read_value()
    with tf.control_dependencies([v.assign_add(between)]):
        after = v.read_value() * 3.
    with tf.control_dependencies([v.assign(after)]):
        return [between, after, v.read_value()], {x: [1., 2., 3.]}


def several_results():
    x = _placeholder([4, 6])
    a, b = tf.split(tf.nn.relu(x) * 2., 2, 1)
    values, places = tf.nn.top_k(a + b, 2)
    return [a, b, values, places], {x: np.random.RandomState(1).rand(4, 6)}


def two_operations():
    x = _placeholder([3])
    return x * tf.sigmoid(x), {x: [1., 2., 3.]}


GRAPHS = (norms_with_updates, clipped_gradients_and_decay, embeddings, moving_averages,
          written_read_and_written_again, several_results, two_operations)


def _run(device, graph, helper=None):
    """The results of two runs and the variables after them."""
    with tf.Graph().as_default():
        with tf.device(device), tf.variable_scope("v", use_resource=True):
            fetches, feed = graph()
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            if helper:
                helper.clear_reports()
            values = [s.run(fetches, feed) for _ in range(2)]
            return values, s.run(tf.global_variables())


@pytest.mark.parametrize("graph", GRAPHS)
def test_one_program(reports, graph):
    got = _run("/device:IPU:0", graph, reports)
    reports.assert_num_reports(1)
    tf.nest.map_structure(
        lambda a, b: a is None or np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        got, _run("cpu", graph))


def test_what_is_not_asked_for_is_not_done(session):
    with tf.device("/device:IPU:0"), tf.variable_scope("v", use_resource=True):
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(tf.square(w * 2.))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert [s.run(loss) for _ in range(2)] == [12, 12]
        s.run(train)
        np.testing.assert_allclose(s.run(w), [0.2] * 3, rtol=1e-6)


def test_a_variable_read_before_and_after_its_update(session):
    """A read that nothing puts after the update gives the old value."""
    with tf.device("/device:IPU:0"):
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=True)
        old = w.read_value()
        with tf.control_dependencies([w.assign_add(old * 2. + 1.)]):
            new = w.read_value() * 1.
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(s.run([old, new]), [[1, 1], [4, 4]])


def test_updates_in_a_loop_of_tensorflows(session):
    with tf.device("/device:IPU:0"):
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=True)

        def body(i, total):
            with tf.control_dependencies([w.assign(tf.tanh(w.read_value() * 2.) + i)]):
                return i + 1., total + w.read_value()

        with tf.device("cpu"):
            start = tf.constant(0.), tf.zeros([2])
        _, y = tf.while_loop(lambda i, _: i < 3., body, start)
    value, total = 1., 0.
    for i in range(3):
        value = np.tanh(value * 2) + i
        total += value
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_allclose(s.run(y), [total] * 2, rtol=1e-5)
        np.testing.assert_allclose(s.run(w), [value] * 2, rtol=1e-5)


# ---- What has reports ----

def test_initializers(reports, session):
    """Lists need no device; what one number fills is a program, and so is what is drawn."""
    with tf.device("/device:IPU:0"), tf.variable_scope("v", use_resource=True):
        listed = [tf.get_variable("a", [], initializer=tf.ones_initializer()),
                  tf.get_variable("b", [3], initializer=tf.constant_initializer([1, 2, 3]))]
        filled = [tf.get_variable(name, [128, 2048], initializer=tf.constant_initializer(2.))
                  for name in ("c", "d")]
        drawn = [tf.get_variable("e", [64], initializer=tf.truncated_normal_initializer(1., 0.1)),
                 tf.get_variable("f", [64], initializer=tf.random_uniform_initializer())]
    with session() as s:
        s.run(tf.variables_initializer(listed))
        reports.assert_num_reports(0)
        s.run(tf.variables_initializer(filled))
        reports.assert_num_reports(1)
        tiles = pva.openReport(reports.find_report()).compilation.tiles
        s.run(tf.variables_initializer(drawn))
        reports.assert_num_reports(2)
        values = s.run([*filled, *drawn])
    assert sum(tile.memory.total.excludingGaps for tile in tiles) > 2 * 4 * 128 * 2048
    assert all((value == 2).all() for value in values[:2])
    assert abs(np.mean(values[2]) - 1) < 0.1
    assert 0 <= values[3].min() and len(set(values[3])) > 32


@pytest.mark.parametrize("compiled", [False, True])
def test_scalars_need_no_device(reports, session, compiled):
    a, b = _placeholder([]), _placeholder([], tf.int32)

    def scalars(a, b):
        return tf.cast(tf.maximum(a, 2.) * 3., tf.int32) + b

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(scalars, [a, b])[0] if compiled else scalars(a, b)
        z = ipu.ipu_compiler.compile(lambda a, b: (b, a), [a, b])
        more = tf.reduce_sum(a * tf.ones([2]))
    with session() as s:
        assert s.run(y, {a: 1., b: 1}) == 7 and s.run(z, {a: 1., b: 2}) == [2, 1]
        reports.assert_num_reports(0)
        assert s.run(more, {a: 3.}) == 6
        reports.assert_num_reports(1)


def test_options_that_are_set_later(tmp_path, session, monkeypatch):
    """A program that was compiled before POPLAR_ENGINE_OPTIONS asked for a profile."""
    x = _placeholder([2, 2])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(tf.square, [x])
    for options, count in (("{}", 0), (f'{{"autoReport.directory": "{tmp_path}",'
                                       ' "autoReport.outputGraphProfile": "true"}', 1)):
        monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", options)
        with session() as s:
            s.run(y, {x: np.ones([2, 2])})
        assert len(list(tmp_path.rglob("profile.pop"))) == count


def test_a_program_of_the_cache_has_had_its_profile(tmp_path, session, monkeypatch):
    flags = f"--executable_cache_path={tmp_path} " + os.environ.get("TF_POPLAR_FLAGS", "")
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    helper = tu.ReportHelper()
    _configure(helper)
    x = _placeholder([2])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(lambda x: x * x - 0.5, [x])
    for count in (1, 0):
        with session() as s:
            s.run(y, {x: [1., 2.]})
            helper.assert_num_reports(count)
            helper.clear_reports()
            s.run(gen_ipu_ops.ipu_clear_all_xla_compilation_caches())
    monkeypatch.undo()
    _configure()


# ---- TensorFlow's graph optimiser ----

def _norm_and_relu(x):
    y, _, _ = tf.nn.fused_batch_norm(x, tf.ones([2]), tf.zeros([2]), is_training=True)
    return tf.nn.relu(y)


def _instance_norm(x):
    mean = tf.reduce_mean(x, [1, 2], keepdims=True)
    variance = tf.reduce_mean(
        tf.math.squared_difference(x, tf.stop_gradient(mean)), [1, 2], keepdims=True)
    scale = tf.math.rsqrt(variance + 1e-3) * tf.constant([1., 2.])
    return tf.nn.relu(x * scale + (tf.constant([3., 4.]) - mean * scale))


def _biases(x):
    y = tf.nn.bias_add(tf.nn.conv2d(x, tf.ones([1, 1, 2, 2]), 1, "SAME"), tf.ones([2]))
    y = tf.nn.leaky_relu(y)
    y = tf.nn.elu(tf.nn.bias_add(tf.matmul(tf.reshape(y, [-1, 2]), tf.ones([2, 2])), tf.ones([2])))
    return y * tf.sigmoid(y) + y * tf.tanh(tf.nn.softplus(y))


_ONLY_CPUS = ("_Fused", "_Mkl", "_ITEX", "_UnaryOps")


@pytest.mark.parametrize("network", [_norm_and_relu, _instance_norm, _biases])
@pytest.mark.parametrize("plugin_optimizer", [True, False])
def test_no_operations_of_cpus_on_an_ipu(network, plugin_optimizer):
    off = rewriter_config_pb2.RewriterConfig.OFF
    config = tf.ConfigProto()
    if not plugin_optimizer:
        config.graph_options.rewrite_options.use_plugin_optimizers = off
    x = _placeholder(IMAGE)
    with tf.device("/device:IPU:0"):
        y = network(x)
    with tf.device("cpu"):
        expected = network(x)
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    feed = {x: np.random.RandomState(1).rand(*IMAGE) - 0.5}
    with tf.Session(config=config) as s:
        value = s.run(y, feed, options, metadata)
        np.testing.assert_allclose(value, s.run(expected, feed), rtol=1e-4, atol=1e-5)
    ops = {node.op for graph in metadata.partition_graphs for node in graph.node
           if "IPU" in node.device}
    assert not [op for op in ops if op.startswith(_ONLY_CPUS)]
    assert ("IpuLaunch" in ops) == plugin_optimizer
