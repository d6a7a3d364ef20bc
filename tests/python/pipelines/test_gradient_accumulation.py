"""Optimizers that accumulate gradients over the iterations of a loop."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import plain_training as plain
from tensorflow.compiler.plugin.poplar.ops import gen_poputil_ops
from tensorflow.python import ipu
from tensorflow.python.ipu import gradient_accumulation_optimizer as accumulating

pytestmark = pytest.mark.smoke

COUNT, UPDATES = 4, 3


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def train(optimizer, iterations=COUNT * UPDATES, runs=1):
    """(losses, variables) after a loop in which the optimizer minimises."""
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(plain.dataset())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def body(x, labels):
            loss = plain.network(x, labels)
            return outfeed.enqueue(loss), optimizer().minimize(loss)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(iterations // runs, body, [], infeed))
        dequeued = outfeed.dequeue()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            losses = []
            for _ in range(runs):
                session.run(step)
                losses.append(session.run(dequeued))
            return (np.concatenate(losses),
                    {one.name: session.run(one) for one in tf.global_variables()})


def assert_same(result, expected):
    np.testing.assert_allclose(result[0], expected[0], rtol=2e-5, atol=1e-6)
    assert sorted(result[1]) == sorted(expected[1])
    for name, value in result[1].items():
        np.testing.assert_allclose(value, expected[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("runs", [1, UPDATES])
def test_sums(runs):
    assert_same(train(lambda: accumulating.GradientAccumulationOptimizerV2(momentum(), COUNT),
                      runs=runs), plain.train(momentum, COUNT, UPDATES, mean=False))


@pytest.mark.parametrize("method", ["MEAN", "RUNNING_MEAN"])
def test_means(method):
    assert_same(train(lambda: accumulating.GradientAccumulationOptimizerV2(
        momentum(), COUNT, reduction_method=method)),
        plain.train(momentum, COUNT, UPDATES, mean=True))


def test_the_first_generation():
    assert_same(train(lambda: accumulating.GradientAccumulationOptimizer(momentum(), COUNT)),
                plain.train(momentum, COUNT, UPDATES, mean=False))


def test_adam_with_mapped_gradients():
    def adam():
        return tf.train.AdamOptimizer(0.01)

    def mapped():
        return accumulating.GradientAccumulationOptimizerV2(
            ipu.map_gradient_optimizer.MapGradientOptimizer(
                adam(), lambda gradient, variable: gradient / COUNT), COUNT)

    assert_same(train(mapped), plain.train(adam, COUNT, UPDATES, mean=True))


def test_a_loop_that_ends_within_a_sum_is_refused():
    with pytest.raises(tf.errors.FailedPreconditionError, match=(
            "Detected a gradient accumulation operation with 4 number of mini batches inside a "
            "loop with 6 iterations")):
        train(lambda: accumulating.GradientAccumulationOptimizerV2(momentum(), COUNT), 6)


def run_loop(repeat, turns, sums):
    """What a loop makes of [10.], to which it adds sums(its value) in every turn."""
    with tf.Graph().as_default(), tf.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result, = ipu.ipu_compiler.compile(
                lambda x: repeat(turns, lambda x: x + sums(x), x), [tf.constant([10.])])
        return session.run(result).tolist()


LOOPS = pytest.mark.parametrize("repeat", [
    lambda turns, body, x: tf.while_loop(lambda i, x: i < turns,
                                         lambda i, x: (i + 1, body(x)), (0, x))[1],
    lambda turns, body, x: ipu.loops.repeat(turns, body, [x])], ids=["while", "repeat"])


@LOOPS
def test_every_loop_is_as_long_as_whole_sums(repeat):
    def sums(x):
        return gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones_like(x), 4,
                                                                verify_usage=False)

    assert run_loop(repeat, 4, sums) == [14.]
    with pytest.raises(tf.errors.FailedPreconditionError, match=(
            "Detected a gradient accumulation operation with 4 number of mini batches inside "
            "a loop with 6 iterations")):
        run_loop(repeat, 6, sums)


@LOOPS
def test_sums_are_for_variables(repeat):
    def sums(x):
        return gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones_like(x), 5)

    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="^The .*IpuStatefulGradientAccumulate op"):
        run_loop(repeat, 10, sums)

    def updates(x):
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), use_resource=True)
        with tf.control_dependencies([total.assign_add(tf.reduce_sum(sums(x)))]):
            return tf.ones_like(x)

    with tf.Graph().as_default(), tf.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(
                lambda x: repeat(10, lambda x: x + updates(x), x), [tf.constant([10.])])
        session.run(tf.global_variables_initializer())
        assert session.run(result)[0].tolist() == [20.]
        assert session.run(tf.global_variables()) == [10.]


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="num_mini_batches must be a positive number"):
        accumulating.GradientAccumulationOptimizerV2(momentum(), 0)
    with pytest.raises(ValueError, match="Cannot parse most as one of "
                       "GradientAccumulationReductionMethod. Valid values are: SUM, MEAN"):
        accumulating.GradientAccumulationOptimizerV2(momentum(), 2, reduction_method="most")
    with pytest.raises(TypeError, match="wraps a tf.train.Optimizer"):
        accumulating.GradientAccumulationOptimizerV2("sgd", 2)
