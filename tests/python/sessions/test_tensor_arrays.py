"""Loops of TensorFlow 1 with TensorArrays on an IPU without `compile`: dynamic_rnn and others."""

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

DEVICES = {"scope": lambda: ipu.scopes.ipu_scope("/device:IPU:0"),
           "device": lambda: tf.device("/device:IPU:0"),
           "cpu": lambda: tf.device("/device:CPU:0")}


@pytest.fixture(autouse=True)
def old_control_flow():
    was_new = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if was_new:
        tf.enable_control_flow_v2()


def values(where, build, feed, runs=1):
    """What the last of some runs gives of build(placeholder), and where the ops ran."""
    metadata = tf.RunMetadata()
    with tf.Graph().as_default():
        with tf.device("/device:CPU:0"):
            x = tf.placeholder(feed.dtype, feed.shape)
        with DEVICES[where](), tf.variable_scope("v", use_resource=True):
            fetches = build(x)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(runs):
                got = session.run(fetches, {x: feed}, run_metadata=metadata, options=tf.RunOptions(
                    output_partition_graphs=True))
    ops = {"IPU" if "IPU" in node.device else "CPU": node.op
           for graph in metadata.partition_graphs for node in graph.node
           if node.op in ("MatMul", "IpuLaunch", "Mul", "AddV2")}
    return got, ops


def cell(x, name="cell"):
    """A recurrent cell made of plain ops: (batch, input), (batch, 5) -> (batch, 5)."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        shape = [x.shape.as_list()[-1] + 5, 5]
        w = tf.get_variable("w", initializer=np.random.RandomState(3).randn(*shape).astype("f"))
    return lambda x, h: tf.tanh(tf.matmul(tf.concat([x, h], 1), w))


def unrolled_by_hand(x, lengths=None):
    """A dynamic_rnn as TensorFlow 1 builds it: arrays, a loop, and an assertion on the lengths."""
    step = cell(x)
    count = x.shape.as_list()[1]
    inputs = tf.TensorArray(tf.float32, count).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, count)
    if lengths is not None:
        lengths = tf.constant(lengths)
        with tf.control_dependencies([tf.Assert(tf.reduce_all(lengths <= count),
                                                ["lengths are", lengths])]):
            lengths = tf.identity(lengths)

    def body(i, h, outputs):
        new = step(inputs.read(i), h)
        if lengths is not None:
            new = tf.where(tf.tile((i < lengths)[:, None], [1, 5]), new, h)
        return i + 1, new, outputs.write(i, new)

    _, _, outputs = tf.while_loop(lambda i, *_: i < count, body,
                                  (0, tf.zeros([x.shape[0], 5]), outputs),
                                  maximum_iterations=count)
    return tf.transpose(outputs.stack(), [1, 0, 2])


def dynamic_rnn(x, lengths=None):
    if not hasattr(tf.nn, "dynamic_rnn") or not hasattr(tf.nn, "rnn_cell"):
        pytest.skip("this TensorFlow has no dynamic_rnn")
    cells = tf.nn.rnn_cell.BasicLSTMCell(5)
    with tf.variable_scope("rnn", initializer=tf.constant_initializer(.1)):
        return tf.nn.dynamic_rnn(cells, x, sequence_length=lengths, dtype=tf.float32)[0]


RNNS = {"by_hand": unrolled_by_hand, "dynamic_rnn": dynamic_rnn}


@pytest.mark.parametrize("where", ["scope", "device"])
@pytest.mark.parametrize("lengths", [None, [2, 4, 1]])
@pytest.mark.parametrize("kind", RNNS)
def test_training_a_recurrent_network(kind, lengths, where):
    def build(x):
        loss = tf.reduce_mean(tf.square(RNNS[kind](x, lengths) - .3))
        train = tf.train.MomentumOptimizer(.5, .9).minimize(loss)
        with tf.control_dependencies([train]):
            return tf.identity(loss), [tf.identity(one) for one in tf.trainable_variables()]

    fed = np.random.RandomState(0).rand(3, 4, 2).astype(np.float32)
    got, ops = values(where, build, fed, runs=3)
    expected, _ = values("cpu", build, fed, runs=3)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
                          got, expected)
    assert ops["IPU"] == "IpuLaunch"


LOOPS = {
    "map_fn": lambda x: tf.map_fn(lambda row: row * 2. + 1., x),
    "map_fn in parts": lambda x: tf.map_fn(lambda row: (row[0] * 2., row + 1.), x,
                                           dtype=(tf.float32, tf.float32)),
    "scan": lambda x: tf.scan(lambda a, row: a * .5 + row, x),
    "foldl": lambda x: tf.foldl(lambda a, row: a * .5 + row, x),
    "concat": lambda x: tf.TensorArray(tf.float32, 2, infer_shape=False).split(
        x, [1, 3]).concat() * 3. + 1.,
    "size": lambda x: tf.cast(tf.TensorArray(tf.float32, 4).unstack(x).size(), "float") * 2. + 1.,
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    def build(x):
        y = LOOPS[name](x)
        total = tf.add_n([tf.reduce_sum(one * one) for one in tf.nest.flatten(y)])
        return y, [one for one in tf.gradients(total, [x]) if one is not None]

    fed = np.random.RandomState(0).rand(4, 3).astype(np.float32)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
                          values("scope", build, fed)[0], values("cpu", build, fed)[0])


def test_a_graph_that_grows_between_runs():
    with tf.device("/device:CPU:0"):
        x = tf.placeholder(tf.float32, [4, 3])
    fed = np.arange(12, dtype=np.float32).reshape(4, 3)
    with tf.Session() as session:
        with DEVICES["scope"]():
            inputs = tf.TensorArray(tf.float32, 4).unstack(x * 2.)
            first = inputs.read(1) * 2. + 1.
        np.testing.assert_allclose(session.run(first, {x: fed}), fed[1] * 4 + 1)
        with DEVICES["scope"]():
            second = inputs.read(2) + inputs.read(3) * 2.
            again = tf.map_fn(lambda row: row - 1., x)
        np.testing.assert_allclose(session.run(second, {x: fed}), fed[2] * 2 + fed[3] * 4)
        np.testing.assert_allclose(session.run(again, {x: fed}), fed - 1)


@pytest.mark.parametrize("option", ["allow_soft_placement", "place_pruned_graph", None])
def test_sessions_that_place_otherwise(option):
    config = tf.ConfigProto(allow_soft_placement=option == "allow_soft_placement")
    config.graph_options.place_pruned_graph = option == "place_pruned_graph"
    with DEVICES["scope"](), contextlib.ExitStack() as stack:
        y = tf.map_fn(lambda row: row * 2. + 1., tf.constant(np.ones([2, 3], np.float32)))
        session = stack.enter_context(tf.Session(config=config))
        np.testing.assert_array_equal(session.run(y), np.full([2, 3], 3))


def test_assertions_say_their_text():
    with DEVICES["device"]():
        x = tf.placeholder_with_default(1., [])
        with tf.control_dependencies([tf.Assert(
                x < 2., ["it is not small but", x, tf.constant([1, 2, 3, 4], tf.int64)])]):
            y = x * 3. + 1.
    with tf.Session() as session:
        assert session.run(y) == 4
        with pytest.raises(tf.errors.InternalError, match=(
                r"assertion failed: \[it is not small but\] \[5\] \[1 2 3\.\.\.\]")):
            session.run(y, {x: 5})


@pytest.mark.skipif(tf.__version__ >= "2.16", reason="TensorFlow does not export what it takes")
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_zeros_and_sums_of_tensor_lists(dtype):
    x = tf.placeholder(dtype, [3, 2])
    with DEVICES["device"]():
        one = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[2])
        lists = [tf.zeros_like(one), tf.add_n([one, one])]
        zeros, total = [tf.raw_ops.TensorListStack(
            input_handle=each, element_shape=[2], element_dtype=dtype) for each in lists]
    fed = np.arange(6).reshape(3, 2)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(zeros, {x: fed}), np.zeros([3, 2]))
        np.testing.assert_array_equal(session.run(total, {x: fed}), fed * 2)
