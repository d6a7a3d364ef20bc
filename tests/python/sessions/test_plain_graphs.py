"""Sessions whose graphs TensorFlow does not optimise (runtime/sessions/plain_graphs.py)."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.tf.inner import sessions
from tremula.tf.runtime.clusters import clusters
from tremula.tf.runtime.sessions import plain_graphs

IPU = "/device:IPU:0"


@pytest.fixture
def optimised(monkeypatch):
    """How many nodes each graph had that TensorFlow optimised: a list that grows."""
    numbers, cluster = [], clusters.cluster

    def cluster_counted(graph_def, *arguments):
        numbers.append(len(graph_def.node))
        return cluster(graph_def, *arguments)

    monkeypatch.setattr(clusters, "cluster", cluster_counted)
    return numbers


def train(x):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        w = tf.get_variable("w", [4, 3], initializer=tf.truncated_normal_initializer(seed=3))
        b = tf.get_variable("b", [3], initializer=tf.random_uniform_initializer(-1, 1, seed=4))
        u = tf.get_variable("u", [3], initializer=tf.random_normal_initializer(seed=5))
        # More zeros than fit into a constant of the graph.
        z = tf.get_variable("z", [50, 40], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b * u)) + tf.reduce_sum(z)
    return loss, tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)


def build(on_ipu):
    """A placeholder and a program, with initialisers on the CPU."""
    tf.set_random_seed(7)
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [2, 4])
    step = on_ipu(train, [x])
    ipu.utils.move_variable_initialization_to_cpu()
    return x, step


def run(session, x, step):
    """What a session gives in three steps: losses, then all variables."""
    session.run(tf.global_variables_initializer())
    losses = [session.run(step, {x: np.full([2, 4], i, np.float32)})[0] for i in range(3)]
    return losses + session.run(tf.global_variables())


def test_training_is_not_optimised_and_gives_the_same(on_ipu, session, optimised):
    x, step = build(on_ipu)
    assert plain_graphs.kind_of(tf.get_default_graph()) == plain_graphs.PLAIN
    with session() as plain:
        found = run(plain, x, step)
    assert not optimised
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    with tf.Session(config=config) as ordinary:
        expected = run(ordinary, x, step)
    assert optimised
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def test_checkpoints(on_ipu, session, optimised, tmp_path):
    x, step = build(on_ipu)
    saver = tf.train.Saver()
    with session() as run_in:
        expected = run(run_in, x, step)[3:]
        path = saver.save(run_in, str(tmp_path / "model"))
    with session() as run_in:
        saver.restore(run_in, path)
        for one, other in zip(run_in.run(tf.global_variables()), expected):
            np.testing.assert_array_equal(one, other)
    assert not optimised


def test_a_graph_that_grows_is_optimised(on_ipu, session, optimised):
    """Ops on an IPU that come later are put together as ever."""
    x, step = build(on_ipu)
    with session() as run_in:
        run(run_in, x, step)
        assert not optimised
        value = tf.placeholder(tf.float32, [2])
        with ipu.scopes.ipu_scope(IPU):
            result = value
            for _ in range(20):
                result = result * 0.5 + 1.0
        np.testing.assert_allclose(run_in.run(result, {value: [2.0, 4.0]}),
                                   [2.0, 2 + 2 ** -19], rtol=1e-6)
    assert optimised


@pytest.mark.parametrize("count", (1, 30))
def test_a_graph_that_is_finished_in_its_session(on_ipu, session, optimised, count):
    """A session that is made before the graph is complete takes it as it is at its first run."""
    x, step = build(on_ipu)
    with session() as run_in:
        config = run_in._config
        with tf.device("cpu"):
            square = tf.matmul(x, x, transpose_b=True)
            for _ in range(count - 1):
                square = tf.exp(-square)
        run(run_in, x, step)
        assert optimised
        assert run_in._config == config
        assert np.isfinite(run_in.run(square, {x: np.ones([2, 4])})).all()


def test_which_sessions_are_left_alone(on_ipu):
    x, step = build(on_ipu)
    assert step
    graph = tf.get_default_graph()

    def options(config=None, target="", of=graph):
        return plain_graphs.options_for(target, of, config)[0]

    own = options()
    assert own.graph_options.rewrite_options.min_graph_nodes > len(graph.get_operations())
    own.ClearField("graph_options")
    assert own == sessions.default_config()
    assert options(of=None) is not None  # the default graph
    soft = options(tf.ConfigProto(allow_soft_placement=True))
    assert soft.allow_soft_placement
    for field in ("infer_shapes", "place_pruned_graph"):
        config = tf.ConfigProto()
        setattr(config.graph_options, field, True)
        assert options(config) is None
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    assert options(config) is None
    assert options(target="grpc://localhost:1") is None
    assert options(of="no graph") is None and options("no options") is None
    assert options(of=tf.Graph()) is None
    with tf.device("cpu"):
        tf.matmul(x, x, transpose_b=True)
    assert options() is None


def test_sessions_see_their_options(on_ipu):
    build(on_ipu)
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(config=config) as one:
        assert one._config is config
    with tf.Session() as one:
        assert one._config == sessions.default_config()


def _initialisers_on_the_ipu(on_ipu):
    on_ipu(train, [tf.placeholder(tf.float32, [2, 4])])


def _marked_ops(on_ipu):
    build(on_ipu)
    with ipu.scopes.ipu_scope(IPU), tf.device("cpu"):
        assert tf.fill([3], 1.0).op.get_attr("_XlaCompile")


def _marked_constants(on_ipu):
    """The slots of a variable on the CPU."""
    with tf.device("cpu"):
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    on_ipu(lambda: tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(v * v)))


def _only_variables(on_ipu):
    del on_ipu
    tf.get_variable("v", [2])


def _arithmetic(on_ipu):
    x, _ = build(on_ipu)
    with tf.device("cpu"):
        tf.matmul(x, x, transpose_b=True)


@pytest.mark.parametrize("make", (_initialisers_on_the_ipu, _marked_ops, _marked_constants,
                                  _only_variables, _arithmetic))
def test_graphs_that_are_not_plain(on_ipu, make):
    make(on_ipu)
    assert plain_graphs.kind_of(tf.get_default_graph()) == plain_graphs.NOT_PLAIN


def fed(on_ipu, dataset):
    """What a loop over a dataset gives, as (initialiser, program, results)."""
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x):
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
            w = tf.get_variable("w", initializer=np.float32(2))
        return out.enqueue(x * w)

    program = on_ipu(lambda: ipu.loops.repeat(3, body, [], feed), [])
    ipu.utils.move_variable_initialization_to_cpu()
    return feed.initializer, program, out.dequeue()


@pytest.mark.parametrize("with_functions", (False, True))
def test_feeds(on_ipu, session, optimised, with_functions):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32)).repeat()
    if with_functions:
        dataset = dataset.map(lambda x: x + 1.0)
    start, program, results = fed(on_ipu, dataset)
    kind = plain_graphs.PLAIN_WITH_FUNCTIONS if with_functions else plain_graphs.PLAIN
    assert plain_graphs.kind_of(tf.get_default_graph()) == kind
    with session() as run_in:
        run_in.run([tf.global_variables_initializer(), start])
        for first in (0, 3, 0):
            run_in.run(program)
            np.testing.assert_array_equal(
                run_in.run(results), 2 * (np.arange(first, first + 3) + with_functions))
    assert bool(optimised) == with_functions


def test_options_for_functions(on_ipu):
    fed(on_ipu, tf.data.Dataset.range(3).map(lambda x: tf.cast(x, tf.float32)).repeat())
    options = plain_graphs.options_for("", None, None)[0].graph_options
    assert options.rewrite_options.meta_optimizer_iterations == options.rewrite_options.ONE
    assert not options.rewrite_options.min_graph_nodes
    assert not options.HasField("optimizer_options")


def test_functions_that_come_after_the_session(on_ipu, session, optimised):
    x, step = build(on_ipu)
    with session() as run_in:
        with tf.device("cpu"):
            element = tf.data.make_one_shot_iterator(
                tf.data.Dataset.range(3).map(lambda k: k + 1)).get_next()
        assert run_in.run(element) == 1
        assert optimised
        run(run_in, x, step)
