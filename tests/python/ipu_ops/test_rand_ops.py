"""Dropout: the same mask in both passes, rates, seeds, noise shapes, the spellings of releases."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import rand_ops

pytestmark = pytest.mark.smoke

SHAPE = (40, 50)


def ones(dtype=np.float32):
    return np.full(SHAPE, 2, dtype)


def with_gradient(**arguments):
    def function(x):
        y = rand_ops.dropout(x, **arguments)
        return y, tf.gradients(y, x, grad_ys=tf.fill(SHAPE, tf.constant(3, x.dtype)))[0]
    return function


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("rate", [0.0, 0.25, 0.8])
def test_backward_mask_is_forward_mask(run, dtype, where, rate):
    (y, dx), (again, _) = run(with_gradient(rate=rate), ones(dtype), where=where, runs=2)
    kept = y != 0
    assert y.dtype == dx.dtype == dtype
    np.testing.assert_array_equal(y, np.where(kept, dtype(2 * np.float32(1 / (1 - rate))), 0))
    np.testing.assert_array_equal(dx, np.where(kept, dtype(3 * np.float32(1 / (1 - rate))), 0))
    assert abs(1 - kept.mean() - rate) < 6 * (rate * (1 - rate) / kept.size) ** .5 + 1e-9
    assert rate == 0 or (y != again).any()


def test_seed_decides_wherever_it_runs(run):
    def function(x):
        return [rand_ops.dropout(x, seed=seed) for seed in ([1, 2], [1, 2], [1, 3], [2, 2])]

    first, second = run(function, ones(), runs=2)
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(first[0], first[1])
    assert (first[0] != first[2]).mean() > .3 and (first[0] != first[3]).mean() > .3
    for mine, theirs in zip(first, run(function, ones(), where="cpu")):
        np.testing.assert_array_equal(mine, theirs)


def test_on_the_device_without_compile():
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, SHAPE)
        there = rand_ops.dropout(x, seed=[5, 6])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        here = rand_ops.dropout(x, seed=[5, 6])
    with tf.Session() as session:
        np.testing.assert_array_equal(*session.run([here, there], {x: ones()}))


def test_shapes_that_are_known_when_it_runs():
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [None, 50])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(lambda x: rand_ops.dropout(x, seed=[5, 6]), [x])
    with tf.device("cpu"):
        z = rand_ops.dropout(x, seed=[5, 6])
    with tf.Session() as session:
        mine, theirs = session.run([y, z], {x: ones()})
        np.testing.assert_array_equal(mine[0], theirs)


@pytest.mark.parametrize("noise_shape", [[1, 50], [40, 1], [1, 1], [40, 50], [None, 1], []])
@pytest.mark.parametrize("where", ["ipu", "cpu"])
def test_noise_shape(run, noise_shape, where):
    y, dx = run(with_gradient(noise_shape=noise_shape, seed=[8, 9]), ones(), where=where)
    np.testing.assert_array_equal(y != 0, dx != 0)
    same = np.broadcast_to(y[tuple(slice(0, 1) if size == 1 else slice(None)
                                   for size in noise_shape)], SHAPE)
    np.testing.assert_array_equal(y, same)
    assert noise_shape == [1, 1] or 0 < (y == 0).mean() < 1


def test_in_a_loop_every_iteration_draws(run):
    def program(x):
        def body(x, count, kept):
            y = rand_ops.dropout(x, rate=0.5)
            dx = tf.gradients(y, x)[0]
            same = tf.reduce_all(tf.equal(tf.equal(y, 0.), tf.equal(dx, 0.)))
            return x, count + tf.cast(same, tf.int32), kept * tf.cast(tf.not_equal(y, 0.),
                                                                      tf.float32)
        return ipu.loops.repeat(5, body, [x, tf.constant(0), tf.ones(SHAPE)])

    _, same, kept = run(program, ones())
    assert same == 5
    assert abs(kept.mean() - 1 / 32) < .03


def test_through_a_loop(run):
    def program(x):
        _, y = tf.while_loop(lambda i, _: i < 3,
                             lambda i, y: [i + 1, rand_ops.dropout(y, rate=0.3)], [0, x],
                             maximum_iterations=3)
        return y, tf.gradients(y, x)[0]

    y, dx = run(program, ones())
    np.testing.assert_array_equal(y != 0, dx != 0)
    assert abs((y != 0).mean() - .7 ** 3) < .07


def test_graph_seeds_and_reset_ipu_seed(run):
    first, second = run(lambda x: [rand_ops.dropout(x), rand_ops.dropout(x)], ones())
    assert (first != second).any()


@pytest.mark.parametrize("call", [
    lambda x: rand_ops.dropout(x, [1, 2], 0.25),                # SDK 1.2
    lambda x: rand_ops.dropout(x, [1, 2], 0.25, 1, [40, 50], None, "d"),
    lambda x: rand_ops.dropout(x, 0.25, None, [1, 2], "d"),
    lambda x: rand_ops.dropout(x, rate=0.25, seed=np.array([1, 2], np.uint32), ref=False),
    lambda x: rand_ops.dropout(x, keep_prob=0.75, seed=tf.constant([1, 2])),
    lambda x: rand_ops.dropout(x, seed=[1, 2], rate=0.25, seed_modifier=1),
    lambda x: rand_ops.dropout(x, seed=[1, 2], rate=0.25, scale=1 / 0.75),
])
def test_spellings(run, call):
    got, want = run(lambda x: [call(x), rand_ops.dropout(x, 0.25, seed=[1, 2])], ones())
    np.testing.assert_array_equal(got, want)


def test_old_seed_modifier_and_scale(run):
    other, plain, scaled = run(lambda x: [
        rand_ops.dropout(x, [1, 2], 0.25, seed_modifier=5), rand_ops.dropout(x, 0.25, seed=[1, 2]),
        rand_ops.dropout(x, [1, 2], 0.25, scale=1.0)], ones())
    assert (other != plain).any()
    np.testing.assert_array_equal(scaled, np.where(plain != 0, 2, 0))
    assert set(np.unique(run(lambda x: rand_ops.dropout(x, None, 0.25), ones()))) == {
        0, np.float32(2) * np.float32(1 / .75)}


@pytest.mark.parametrize("arguments, error, text", [
    ({"rate": 1.0}, ValueError, r"The rate must be in the range \[0, 1\), but was 1.0"),
    ({"rate": -0.1}, ValueError, r"The rate must be in the range \[0, 1\), but was -0.1"),
    ({"seed": [1, 2, 3]}, ValueError, r"Expected the seed to have a shape \[2\], but got \(3,\)"),
    ({"noise_shape": [40]}, ValueError, "The length of noise_shape must equal the rank of x."),
    ({"noise_shape": [40, 7]}, ValueError, "Dimension mismatch, 50 != 7."),
    ({"banana": 1}, TypeError, "banana"),
])
def test_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        rand_ops.dropout(tf.zeros(SHAPE), **arguments)


def arena_bytes(function, shape):
    """The memory of a program beside its inputs and outputs."""
    from tremula import core
    from tremula.tf.runtime.lowering import lowering, staging
    from tremula.tf.runtime.tracing import tracing
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        trace = tracing.Trace("memory", "/device:IPU:0")
        result = trace.run(function, [tf.placeholder(tf.float32, shape)])
        trace.finish([result])
        source = staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                               "/device:IPU:0")
        return core.compile(core.Module.read(lowering.lower(source).module)).arena_bytes


def test_less_memory_than_a_stored_mask():
    def training(dropout):
        def function(x):
            y = x
            for _ in range(4):
                y = tf.matmul(tf.tanh(dropout(y)), tf.eye(64))  # no fusion holds all of it
            return tf.gradients(tf.reduce_sum(y * y), x)[0]
        return function

    shape = [1024, 64]
    ours = arena_bytes(training(lambda x: rand_ops.dropout(x, 0.3)), shape)
    theirs = arena_bytes(training(lambda x: tf.nn.dropout(x, rate=0.3)), shape)
    assert ours < theirs - 4 * 1024 * 64  # four masks of bytes


def test_integers_are_refused():
    with pytest.raises(TypeError, match="float16 or float32"):
        rand_ops.dropout(tf.zeros(SHAPE, tf.int32))
