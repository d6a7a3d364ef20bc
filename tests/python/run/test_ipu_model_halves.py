"""The IPU Model stores float16 as float32: what is finite inside a program, and what its edges
round (docs/numbers.md)."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops

H = np.float16
MODEL = "--use_ipu_model"
ROUNDS = MODEL + " --ipu_model_accurate_half"


def configure(ipus=1):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def flags(monkeypatch):
    def set_flags(text, ipus=1):
        monkeypatch.setenv("TF_POPLAR_FLAGS", text)
        configure(ipus)
    set_flags(MODEL)
    yield set_flags
    set_flags("")


def halves(*values):
    return np.array(values, H)


def run(session, on_ipu, function, *values):
    with tf.device("cpu"):
        inputs = [tf.placeholder(np.asarray(value).dtype, np.shape(value)) for value in values]
    result = on_ipu(function, inputs)
    with session() as s:
        return s.run(result, dict(zip(inputs, values)))


def through(x, y):
    """Values that no half holds on the way, and results that one holds."""
    return [(x * y) / y, tf.reduce_sum(x * y), tf.cast(x * y, tf.float32),
            tf.cast(tf.reduce_mean(tf.tile(x, [65536])), tf.float32),
            tf.bitcast(x * y, tf.uint16)]


@pytest.mark.parametrize("text, finite", [(MODEL, True), (ROUNDS, False)])
def test_numbers_beyond_a_half(on_ipu, session, flags, text, finite):
    flags(text)
    x, y = halves(300, 2), halves(300, 4)
    found = run(session, on_ipu, through, x, y)
    if finite:
        np.testing.assert_array_equal(found[0], x)
        np.testing.assert_array_equal(found[2], [90000, 8])
    else:
        np.testing.assert_array_equal(found[0], [np.inf, 2])
        np.testing.assert_array_equal(found[2], [np.inf, 8])
    assert np.isinf(found[1])
    assert found[3] == 151
    np.testing.assert_array_equal(found[4], halves(np.inf, 8).view(np.uint16))


def test_feeds_round(session):
    """What is fed out is rounded; what is fed in is a half."""
    data = np.array([[1, 300], [2, 200]], H)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(total, x):
        total = total + x * x
        return total, outfeed.enqueue((total, tf.cast(total, tf.float32)))

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(2, body, [tf.zeros([2], tf.float16)], infeed))
    taken = outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        total, = s.run(result)
        rounded, wide = s.run(taken)
    np.testing.assert_array_equal(total, [5, np.inf])
    np.testing.assert_array_equal(rounded, [[1, np.inf], [5, np.inf]])
    np.testing.assert_array_equal(wide, [[1, 90000], [5, 130000]])


def test_the_host_gets_halves(on_ipu, session):
    """Functions of the host: a part of the program outside of it."""
    def program(x):
        with ipu.scopes.outside_compilation_scope():
            y = tf.add(x * x, tf.constant(1, tf.float16))
        return [y, tf.cast((x * x) / x, tf.float32)]

    y, z = run(session, on_ipu, program, halves(300, 2))
    np.testing.assert_array_equal(y, [np.inf, 5])
    np.testing.assert_array_equal(z, [300, 2])


@pytest.mark.parametrize("text, expected", [(MODEL, 2 + 16 / 2048), (ROUNDS, 2), ("", 2)])
def test_variables_between_runs(session, flags, text, expected):
    """A variable stays as it is on the device; the host reads it rounded. Writing it counts."""
    flags(text)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        with tf.variable_scope("v", use_resource=True):
            variable = tf.get_variable("v", [4], tf.float16, tf.constant_initializer(2))
        step = ipu.ipu_compiler.compile(
            lambda: variable.assign_add(tf.fill([4], tf.constant(2. ** -11, tf.float16))))
    with tf.device("cpu"):
        value = tf.placeholder(tf.float16, [4])
    write = variable.assign(value)
    with session() as s:
        s.run(tf.global_variables_initializer())
        for _ in range(16):
            s.run(step)
            assert s.run(variable).dtype == H
        np.testing.assert_array_equal(s.run(variable), [expected] * 4)
        s.run(write, {value: [1] * 4})
        s.run(step)
        np.testing.assert_array_equal(s.run(variable), [H(1 + 2. ** -11)] * 4)


@pytest.mark.parametrize("replicas", [1, 2])
def test_training_in_half_precision(session, flags, replicas):
    """Gradients beyond 65504 that a loss scale makes: finite, and those of float32."""
    flags(MODEL, replicas)
    found = {}
    for dtype in (tf.float16, tf.float32):
        with tf.Graph().as_default():
            data = tf.data.Dataset.from_tensors(np.linspace(-1, 1, 8, dtype=H)).repeat()
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)

            def body(loss, x, dtype=dtype):
                x = tf.cast(x, dtype)
                with tf.variable_scope("net", use_resource=True):
                    w = tf.get_variable("w", [8, 8], dtype, tf.constant_initializer(0.25))
                y = tf.matmul(x[None], w)
                loss = tf.reduce_sum(tf.square(y - 1)) * 2 ** 14
                optimizer = ipu.optimizers.CrossReplicaOptimizer(
                    tf.train.GradientDescentOptimizer(2. ** -22))
                return tf.cast(loss, tf.float32), optimizer.minimize(loss)

            with ipu.scopes.ipu_scope("/device:IPU:0"):
                step = ipu.ipu_compiler.compile(
                    lambda body=body, infeed=infeed: ipu.loops.repeat(
                        8, body, [tf.constant(0.)], infeed))
            with session() as s:
                s.run([tf.global_variables_initializer(), infeed.initializer])
                losses = [s.run(step)[0] for _ in range(2)]
                found[dtype] = losses, s.run(tf.global_variables()[0])
    (half_losses, weights), (losses, expected) = found[tf.float16], found[tf.float32]
    assert half_losses[0] > 65504
    np.testing.assert_allclose(half_losses, losses, rtol=1e-6)
    np.testing.assert_array_equal(weights, expected.astype(H))


def test_a_pipeline(session, flags):
    """Between stages and in accumulators nothing is rounded."""
    flags(MODEL, 2)
    data = tf.data.Dataset.from_tensors(halves(300, 1)).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def network():
        return pipelining_ops.pipeline(
            [lambda x: x * x, lambda y: tf.reduce_sum(tf.cast(y, tf.float32))], 4,
            infeed_queue=infeed, outfeed_queue=outfeed, accumulate_outfeed=True)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(network)
    taken = outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        s.run(step)
        np.testing.assert_array_equal(np.ravel(s.run(taken)[0]), [4 * 90001])


def test_placed_operations(session):
    """Each program has its edges."""
    with tf.device("cpu"):
        x = tf.placeholder(tf.float16, [3])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = (x * x) / x
        z = tf.cast(x * x, tf.float32)
    with session() as s:
        found = s.run([y, z], {x: [1, 2, 4]})
        assert found[0].dtype == H
    np.testing.assert_array_equal(found, [[1, 2, 4], [1, 4, 16]])
