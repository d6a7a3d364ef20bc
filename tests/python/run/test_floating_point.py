"""IPUConfig.floating_point_behaviour: what stops a program, and how float16 is rounded."""

import contextlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import replication_ops

MODEL = "--use_ipu_model"
ROUNDS = MODEL + " --ipu_model_accurate_half"
ROUNDING = ipu.config.StochasticRoundingBehaviour


def configure(ipus=1, stable=False, **behaviour):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.experimental.enable_prng_stability = stable
    for name, value in behaviour.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def plain_afterwards():
    yield
    configure()


def run(session, on_ipu, function, *values):
    """function of the values, computed on the IPU."""
    with tf.device("cpu"):
        inputs = [tf.placeholder(np.asarray(value).dtype, np.shape(value)) for value in values]
    result = on_ipu(function, inputs)
    with session() as s:
        return s.run(result, dict(zip(inputs, values)))[0]


def array(*values, dtype=np.float32):
    return np.array(values, dtype)


EVENTS = [
    ("div0", lambda x: 1.0 / x, array(1, 0), "truediv"),
    ("div0", tf.math.log, array(1, 0), "Log"),
    ("inv", tf.sqrt, array(1, -1), "Sqrt"),
    ("inv", lambda x: x - x, array(np.inf, 1), "sub"),
    ("oflo", tf.square, array(1, 1e30), "Square"),
    ("oflo", lambda x: tf.tanh(x * x), array(1, 1e30), "mul"),
    ("oflo", tf.square, array(1, 300, dtype=np.float16), "Square"),
    ("oflo", lambda x: tf.cast(x, tf.float16), array(1, 1e5), "Cast"),
    ("oflo", lambda x: tf.matmul(x[None], x[:, None]), array(1e30, 1e30), "MatMul"),
]


@pytest.mark.parametrize("event, function, x, name", EVENTS,
                         ids=[f"{event}-{name}-{i}" for i, (event, _, _, name) in
                              enumerate(EVENTS)])
def test_event(on_ipu, session, event, function, x, name):
    configure(**{event: True})
    with pytest.raises(tf.errors.InternalError) as error:
        run(session, on_ipu, function, x)
    text = str(error.value)
    assert "[Recovery action: IPU_RESET] Tiles in excepted state" in text
    assert "[Poplar][Execute engine] application_runtime_error: " in text
    assert re.search(name, text) and "test_floating_point.py" in text, text


@pytest.mark.parametrize("function, x", [case[1:3] for case in EVENTS])
def test_no_event_by_default(on_ipu, session, function, x):
    configure()
    assert np.shape(run(session, on_ipu, function, x)) in ((2,), (1, 1))


@pytest.mark.parametrize("event, function, x", [
    ("div0", lambda x: x / 2.0, array(0, 1)),
    ("div0", lambda x: x * 2.0, array(np.inf, 1)),
    ("inv", lambda x: x + 1.0, array(np.nan, 1)),
    ("oflo", lambda x: x + 1.0, array(np.inf, 1)),
    ("oflo", lambda x: tf.nn.softmax(x), array(-np.inf, 1)),
    ("oflo", lambda x: tf.reduce_max(x, axis=0, keepdims=True), array(-np.inf, 1)),
    ("oflo", lambda x: tf.nn.max_pool2d(x[None, :, None, None], 2, 1, "SAME")[0, :, 0, 0],
     array(1, 2, 3)),
])
def test_what_is_no_event(on_ipu, session, event, function, x):
    with_option = []
    for behaviour in ({}, {event: True}):
        configure(**behaviour)
        with tf.Graph().as_default():
            with_option.append(run(session, on_ipu, function, x))
    np.testing.assert_array_equal(*with_option)


def test_the_device_runs_on_after_an_event(on_ipu, session):
    configure(div0=True)
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [2])
    y = on_ipu(lambda x: 1.0 / x, [x])
    with session() as s:
        with pytest.raises(tf.errors.InternalError):
            s.run(y, {x: [1, 0]})
        np.testing.assert_array_equal(s.run(y, {x: [1, 2]})[0], [1, 0.5])


def test_training_with_all_events_on_gives_the_same(on_ipu, session):
    """A network that has none, with loops, convolutions and batch norms."""
    images = np.random.RandomState(1).rand(2, 8, 8, 3).astype(np.float32)

    def train(images):
        with tf.variable_scope("net", use_resource=True):
            kernel = tf.get_variable("k", [3, 3, 3, 4], initializer=tf.constant_initializer(0.1))
            x = tf.nn.conv2d(images, kernel, 1, "SAME")
            x = tf.nn.fused_batch_norm(x, tf.ones([4]), tf.zeros([4]))[0]
            x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "SAME")
            loss = tf.reduce_mean(tf.nn.softmax(tf.reduce_mean(x, [1, 2]))[:, 0])
            update = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            with tf.control_dependencies([update]):
                return tf.identity(loss)

    losses = []
    for behaviour in ({}, {"inv": True, "div0": True, "oflo": True}):
        configure(**behaviour)
        with tf.Graph().as_default():
            with tf.device("cpu"):
                x = tf.placeholder(tf.float32, images.shape)
            loss = on_ipu(train, [x])
            with session() as s:
                s.run(tf.global_variables_initializer())
                losses.append([s.run(loss, {x: images})[0] for _ in range(3)])
    np.testing.assert_allclose(*losses, rtol=1e-6)


def halves(*values):
    return np.array(values, np.float16)


@pytest.mark.parametrize("flags, nanoo, large, pole", [
    ("", False, 65504, np.nan), ("", True, np.nan, np.nan),
    (ROUNDS, False, np.inf, np.inf), (ROUNDS, True, np.nan, np.nan),
    (MODEL, False, np.inf, np.inf), (MODEL, True, np.inf, np.inf)])
def test_halves_that_overflow(on_ipu, session, monkeypatch, flags, nanoo, large, pole):
    """On an IPU and on the IPU Model, which stores halves as floats unless it is asked to round.
    What was infinite before has not overflowed."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    configure(nanoo=nanoo)

    def compute(x, y, wide):
        return tf.stack([x * y, tf.reduce_sum(x * 3), tf.matmul(x[None, None], y[None, None])[0, 0],
                         tf.exp(y), tf.cast(wide, tf.float16), x / (y - y), tf.math.rsqrt(y - y),
                         x * float("inf"), -x * y])

    found = run(session, on_ipu, lambda *scalars: [compute(*scalars)], np.float16(1e4),
                np.float16(1e4), np.float32(-1e6))
    np.testing.assert_array_equal(
        found, halves(large, 30000, large, large, -large, pole, pole, np.inf, -large))
    sums = run(session, on_ipu, lambda x: [tf.reduce_sum(x), tf.reduce_mean(x)],
               halves(60000, 60000, 1))
    assert sums == halves(large) or np.isnan(large)


def test_numbers_that_are_none(on_ipu, session):
    """The smallest integer for a NaN, and an exception with inv."""
    nan = halves(np.nan, 7)
    configure()
    with tf.Graph().as_default():
        found = run(session, on_ipu, lambda x: tf.cast(x, tf.int32), nan)
    assert found.tolist() == [-2 ** 31, 7]
    configure(inv=True)
    with pytest.raises(tf.errors.InternalError, match=r"Tiles in excepted state: .*FP_INV"):
        run(session, on_ipu, lambda x: tf.cast(x, tf.int32), nan)


def test_a_nan_that_overflow_makes_is_an_overflow(on_ipu, session):
    configure(inv=True, oflo=True, nanoo=True)
    with pytest.raises(tf.errors.InternalError, match=r"overflow \(FP_OFLO\) in"):
        run(session, on_ipu, lambda x: x * x, array(2, 300, dtype=np.float16))


X = np.full([20000], 1.00025, np.float32)  # a quarter of the way between two halves


def to_half(x):
    return tf.cast(x, tf.float16)


def test_stochastic_rounding(on_ipu, session):
    results = {}
    for name, esr, seed in (("off", ROUNDING.OFF, 1), ("on", ROUNDING.ON, 1),
                            ("again", ROUNDING.ON, 1), ("other", ROUNDING.ON, 2),
                            ("identical", ROUNDING.REPLICA_IDENTICAL_ONLY, 1)):
        configure(stable=name == "identical", esr=esr)
        ipu.utils.reset_ipu_seed(seed)
        with tf.Graph().as_default():
            results[name] = run(session, on_ipu, to_half, X)
    assert len(set(results["off"])) == 1
    assert len(set(results["on"])) == 2
    assert abs(results["on"].astype(np.float64).mean() - X[0]) < 2e-5
    np.testing.assert_array_equal(results["on"], results["again"])
    np.testing.assert_array_equal(results["on"], results["identical"])
    assert np.any(results["on"] != results["other"])


def test_scope_overrides(on_ipu, session):
    def both(x):
        with ipu.scopes.stochastic_rounding(True):
            on = to_half(x)
        with ipu.scopes.stochastic_rounding(False):
            off = to_half(x + 0.0)
        return tf.stack([on, off])
    for esr in (ROUNDING.OFF, ROUNDING.ON):
        configure(esr=esr)
        with tf.Graph().as_default():
            on, off = run(session, on_ipu, both, X)
        assert len(set(on)) == 2 and len(set(off)) == 1


def test_scopes_without_compile(session):
    """Operations that run one by one, and some that run as one program."""
    configure(esr=ROUNDING.ON)
    with tf.device("cpu"):
        x, y = (tf.placeholder(tf.float16, [4096]) for _ in range(2))
    results, random = [], []
    for function in (lambda: x + y, lambda: tf.negative(tf.sqrt(x + y) + y)):
        for nested in ((), (False,), (True,), (False, True), (True, False)):
            with ipu.scopes.ipu_scope("/device:IPU:0"), contextlib.ExitStack() as scopes:
                for override in nested:
                    scopes.enter_context(ipu.scopes.stochastic_rounding(override=override))
                results.append(function())
                random.append(not nested or nested[-1])
    with session() as s:
        found = s.run(results, {x: np.full(4096, 1), y: np.full(4096, 1e-3)})
    assert [len(set(one.tolist())) > 1 for one in found] == random


# ---- On several replicas ----

def of_replicas(session, replicas, body, **behaviour):
    """What body(x) gives on each replica, with X as an input of the program; x is a float32."""
    configure(replicas, **behaviour)
    ipu.utils.reset_ipu_seed(3)
    with tf.Graph().as_default():
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="rounded")
        with tf.device("cpu"):
            x = tf.placeholder(tf.float32, X.shape)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(lambda x: outfeed.enqueue(body(x)), [x])
        taken = outfeed.dequeue()
        with session() as s:
            s.run(result, {x: X})
            return [one[0] for one in s.run(taken)]


def differing(x):
    """The same numbers, of which nobody can know that they are the same on all replicas."""
    return x + tf.cast(replication_ops.replication_index(), tf.float32) * 0.0


def is_random(values):
    return len(set(values.tolist())) == 2


@pytest.mark.parametrize("esr,stable,same,others", [
    (ROUNDING.REPLICA_IDENTICAL_ONLY, True, "alike", "nearest"),
    (ROUNDING.REPLICA_IDENTICAL_ONLY, False, "nearest", "nearest"),
    (ROUNDING.ON, True, "alike", "apart"),
    (ROUNDING.ON, False, "apart", "apart"),
    (ROUNDING.OFF, True, "nearest", "nearest")])
def test_replicas(session, esr, stable, same, others):
    def body(x):
        y = differing(x)
        total = ipu.cross_replica_ops.cross_replica_mean(y)
        said = ipu.cross_replica_ops.assume_equal_across_replicas(y)

        def loop(n, x, y):
            return n + 1, x * 1.0, tf.where(tf.equal(n, 1), y, x)

        _, kept, mixed = tf.while_loop(lambda n, x, y: n < 2, loop, [0, x, y],
                                       maximum_iterations=2)
        return tuple(tf.cast(one, tf.float16) for one in (x, y, total, kept, mixed, said))

    found = of_replicas(session, 2, body, esr=esr, stable=stable)
    names = ("input", "differing", "reduced", "kept", "mixed", "said")
    assert len(found) == len(names)
    for name, values, expected in zip(names, found, (same, others, same, same, others, same)):
        one, two = values
        if expected == "nearest":
            assert not is_random(one) and not is_random(two), name
            continue
        assert is_random(one) and is_random(two), name
        assert np.array_equal(one, two) == (expected == "alike"), name
    if same == "alike":  # not the same random numbers everywhere
        assert np.any(found[0][0] != found[2][0])


def test_a_scope_on_replicas(session):
    """What a scope rounds at random is rounded alike where it is the same."""
    def body(x):
        with ipu.scopes.stochastic_rounding(True):
            return tf.cast(x, tf.float16), tf.cast(differing(x), tf.float16)

    same, others = of_replicas(session, 2, body, esr=ROUNDING.REPLICA_IDENTICAL_ONLY, stable=True)
    assert is_random(same[0]) and np.array_equal(*same)
    assert is_random(others[0]) and not np.array_equal(*others)


def test_weights_stay_the_same_on_all_replicas(session):
    """Half weights, trained on different data by all-reduced gradients."""
    configure(2, stable=True, esr=ROUNDING.REPLICA_IDENTICAL_ONLY)
    data = np.random.RandomState(0).rand(16, 64).astype(np.float16)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data),
                                                 feed_name="data")
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="weights")

    def body(x):
        with tf.variable_scope("net", use_resource=True):
            weight = tf.get_variable("w", [64], tf.float16, tf.ones_initializer())
        loss = tf.reduce_sum(tf.square(weight * x - 0.3))
        optimizer = ipu.optimizers.CrossReplicaOptimizer(tf.train.GradientDescentOptimizer(0.01))
        train = optimizer.minimize(loss)
        with tf.control_dependencies([train]):
            return outfeed.enqueue(weight.read_value())

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(8, body, [], infeed))
    taken = outfeed.dequeue()
    with session() as s:
        s.run([tf.global_variables_initializer(), infeed.initializer])
        s.run(result)
        weights = s.run(taken)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 1])
    assert np.any(weights[0] != weights[-1])
