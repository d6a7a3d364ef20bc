"""Optimizers of TensorFlow 1 around optimizers, in all orders, against a formula in NumPy."""

import itertools
import random

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu
from tensorflow.python.ipu import optimizers

START = np.array([1.0, -2.0, 3.0], "float32")
RUNS, STEPS = 2, 8  # executions, and the iterations of a loop in each
GRADIENTS = np.random.default_rng(7).normal(size=(RUNS, STEPS, 3)).astype("float32")

# Each wrapper is made by KINDS[kind](optimizer inside, its depth).
KINDS = {
    "map": lambda opt, depth: optimizers.MapGradientOptimizer(
        opt, lambda g, _: bounded(g, depth)),
    "sum": lambda opt, depth: optimizers.GradientAccumulationOptimizer(opt, 2),
    "replicas sum": lambda opt, depth: optimizers.CrossReplicaGradientAccumulationOptimizer(opt, 2),
    "sum 2": lambda opt, depth: optimizers.GradientAccumulationOptimizerV2(opt, 2),
    "mean 2": lambda opt, depth: optimizers.CrossReplicaGradientAccumulationOptimizerV2(
        opt, 2, reduction_method="mean"),
    "als": lambda opt, depth: optimizers.AutomaticLossScalingOptimizer(
        opt, 3., update_frequency=2, max_loss_scaling_factor=64., name=f"als{depth}"),
    "replicas": lambda opt, depth: optimizers.CrossReplicaOptimizer(opt),
    "sharded": lambda opt, depth: optimizers.ShardedOptimizer(opt),
    "base": lambda opt, depth: optimizers.IpuOptimizer(opt)}
ADDS_UP = ("sum", "replicas sum", "sum 2", "mean 2")


def bounded(g, depth):
    return g / (1 + abs(g)) + .1 * depth


class Layer:
    """A wrapper in NumPy, and what it remembers."""

    def __init__(self, kind, depth):
        self.kind, self.depth = kind, depth
        self.factor = 3. if kind == "als" else 1.
        self.seen, self.sum, self.count = 1, 0., 0

    def unscaled(self, g):
        """float32 gradients leave the histogram empty: the factor grows with each second step."""
        result = g / self.factor
        if self.seen % 2 == 0:
            self.factor *= 2 if self.factor * 2 < 64 else 1
            self.seen = 1
        else:
            self.seen += 1
        return result

    def added(self, g):
        """The sum or the mean after the last gradient of it, else None."""
        self.sum, self.count = self.sum + g / (2 if self.kind == "mean 2" else 1), self.count + 1
        if self.count < 2:
            return None
        total, self.sum, self.count = self.sum, 0., 0
        return total


def expected(kinds):
    """The variable after each run, if the loss of a step is sum(variable * x): gradients are
    computed from the inside to the outside, and applied from the outside to the inside."""
    layers = [Layer(kind, depth) for depth, kind in enumerate(kinds)]
    w, momentum, found = START.astype("float64"), 0., []
    for x in GRADIENTS.reshape(-1, 3):
        g = x * np.prod([one.factor for one in layers])
        for one in reversed(layers):
            g = bounded(g, one.depth) if one.kind == "map" else g
        for one in layers:
            g = one.unscaled(g) if one.kind == "als" else g
            g = one.added(g) if one.kind in ADDS_UP else g
            if g is None:
                break
        else:
            momentum = .5 * momentum + g
            w = w - .05 * momentum
        found.append(w)
    return np.array(found)[STEPS - 1::STEPS]


def trained(stacks):
    """The same of a program with a loop for each of several stacks of wrappers: an array [stacks,
    runs, 3]."""
    with tf.Graph().as_default(), tf.Session() as session:
        data, variables = tf.placeholder(tf.float32, [STEPS, 3]), []

        def loop(number, kinds, data):
            with tf.variable_scope(f"stack{number}", use_resource=True):
                variable = tf.get_variable("w", initializer=START)
                opt = tf.train.MomentumOptimizer(.05, .5)
                for depth, kind in reversed(list(enumerate(kinds))):
                    opt = KINDS[kind](opt, depth)

                def body(i, data):
                    train = opt.minimize(tf.reduce_sum(variable * data[i]), var_list=[variable])
                    with tf.control_dependencies([train]):
                        return i + 1, data

                variables.append(variable)
                return ipu.loops.repeat(STEPS, body, [0, data])[0]

        def program(data):
            return [loop(number, kinds, data) for number, kinds in enumerate(stacks)]

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(program, [data])
        session.run(tf.global_variables_initializer())
        found = []
        for gradients in GRADIENTS:
            session.run(step, {data: gradients})
            found.append(session.run(variables))
        return np.array(found).swapaxes(0, 1)


def check(stacks):
    for kinds, found in zip(stacks, trained(stacks)):
        np.testing.assert_allclose(found, expected(kinds), rtol=2e-4, atol=2e-5, err_msg=f"{kinds}")


@pytest.mark.parametrize("kind", ["ours", "TensorFlow's"])
@pytest.mark.parametrize("steps", [6, 8])
def test_a_sum_in_a_sum_takes_whole_products(kind, steps):
    """A loop of 6 has whole sums of 2, but would end in the middle of a sum of 2 sums of 2."""
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("w", initializer=START, use_resource=True)
        opt = tf.train.GradientDescentOptimizer(.5)
        for depth in range(2):
            opt = KINDS["sum"](opt, depth)

        def body(i):
            with tf.control_dependencies([opt.minimize(tf.reduce_sum(variable))]):
                return i + 1

        def program():
            if kind == "ours":
                return ipu.loops.repeat(steps, body, [0])
            return tf.while_loop(lambda i: i < steps, body, [0], maximum_iterations=steps)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(program)
        session.run(tf.global_variables_initializer())
        if steps == 8:
            session.run(step)
            np.testing.assert_allclose(session.run(variable), START - .5 * 8)
        else:
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="with 4 number of mini batches inside a loop with 6"):
                session.run(step)


def stacks_of(size):
    """A loop may have one update that waits for all mini-batches."""
    return [kinds for kinds in itertools.product(KINDS, repeat=size)
            if kinds.count("sum 2") + kinds.count("mean 2") < 2]


def test_some_triples():
    check(random.Random(1).sample(stacks_of(3), 12))


@pytest.mark.long
@pytest.mark.parametrize("outer", KINDS)
def test_pairs(outer):
    check([(outer,), *(kinds for kinds in stacks_of(2) if kinds[0] == outer)])


@pytest.mark.long
@pytest.mark.parametrize("outer", stacks_of(2), ids=" ".join)
def test_triples(outer):
    check([kinds for kinds in stacks_of(3) if kinds[:2] == outer])
