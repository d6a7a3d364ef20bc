"""Optimizers around optimizers, in all orders, against a formula in NumPy: pairs, triples and what
fit() puts around them."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tensorflow.python import ipu
from tensorflow.python.ipu.keras import optimizers

legacy = keras.optimizers.legacy
START = np.array([1.0, -2.0, 3.0], "float32")
STEPS = 16
GRADIENTS = np.random.default_rng(7).normal(size=(STEPS, 3)).astype("float32")


# ---- The wrappers: each is made by KINDS[kind](optimizer inside, its depth) ----

def bounded(g, depth):
    return g / (1 + abs(g)) + .1 * depth


def flattened(g, depth):
    return g / (1 + abs(g)) ** .5 - .1 * depth


KINDS = {
    "map": lambda opt, depth: optimizers.MapGradientOptimizer(
        opt, lambda g, _: bounded(g, depth)),
    "inverted": lambda opt, depth: optimizers.MapGradientOptimizerInvertedChaining(
        opt, lambda g, _: flattened(g, depth)),
    "sum": lambda opt, depth: optimizers.GradientAccumulationOptimizer(opt, 2),
    "mean": lambda opt, depth: optimizers.GradientAccumulationOptimizer(
        opt, 2, reduction_method="mean"),
    "als": lambda opt, depth: optimizers.ALSOptimizer(
        opt, 2, update_frequency=2, max_loss_scaling_factor=64),
    "als sum": lambda opt, depth: optimizers.ALSGradientAccumulationOptimizer(
        KINDS["als"](opt, depth), 2),
    "forerunner": lambda opt, depth: optimizers.AutomaticLossScalingOptimizer(
        opt, 3., update_frequency=2, max_loss_scaling_factor=64.),
    "base": lambda opt, depth: optimizers.IpuOptimizer(opt),
    "replicas": lambda opt, depth: optimizers.CrossReplicaOptimizer(opt),
    "loss scale": lambda opt, depth: keras.mixed_precision.LossScaleOptimizer(
        opt, dynamic=False, initial_scale=8.)}
PREPROCESS = ("map", "inverted", "base", "replicas")


def made(kinds):
    opt = legacy.SGD(.05, momentum=.5, clipvalue=1.5)
    for depth, kind in reversed(list(enumerate(kinds, 1))):
        opt = KINDS[kind](opt, depth)
    return opt


# ---- The same in NumPy ----

class Layer:
    """A wrapper and what it remembers."""

    def __init__(self, kind, depth):
        self.kind, self.depth = kind, depth
        self.scales = kind in ("als", "als sum", "forerunner")
        self.factor = {"forerunner": 3.}.get(kind, 2.) if self.scales else 1.
        self.first = self.seen = int(kind == "forerunner")
        self.sum, self.count = 0., 0

    def unscaled(self, g, ends):
        """float32 gradients leave the histogram empty: the factor grows with each second step."""
        result = g / self.factor
        if ends and self.seen and self.seen % 2 == 0:
            self.factor *= 2 if self.factor * 2 < 64 else 1
            self.seen = self.first
        else:
            self.seen += ends
        return result

    def added(self, g):
        """The sum or the mean after the last gradient of it, else None."""
        self.sum, self.count = self.sum + g / (2 if self.kind == "mean" else 1), self.count + 1
        if self.count < (4 if self.kind == "sum of 4" else 2):
            return None
        total, self.sum, self.count = self.sum, 0., 0
        return total


class Formula:
    """A variable that is trained with the loss sum(variable * x)."""

    def __init__(self, kinds, around=()):
        self.layers = [Layer(kind, depth) for depth, kind in
                       enumerate([*around, *kinds], 1 - len(around))]
        self.w, self.momentum, self.updates = START.astype("float64"), 0., 0

    def step(self, x):
        self.apply(x.astype("float64") * np.prod([one.factor for one in self.layers]), self.layers)
        return self.w

    def apply(self, g, layers):
        if not layers:
            self.momentum = .5 * self.momentum - .05 * np.clip(g, -1.5, 1.5)
            self.w, self.updates = self.w + self.momentum, self.updates + 1
            return
        layer, *inside = layers
        if layer.kind in PREPROCESS:
            together = list(itertools.takewhile(lambda one: one.kind in PREPROCESS, layers))
            for one in reversed(together):
                g = bounded(g, one.depth) if one.kind == "map" else g
            for one in together:
                g = flattened(g, one.depth) if one.kind == "inverted" else g
            inside = layers[len(together):]
        if layer.scales:
            g = layer.unscaled(g, layer.kind != "als sum" or layer.count == 1)
        if layer.kind in ("sum", "sum of 4", "mean", "als sum"):
            g = layer.added(g)
        if g is not None:
            self.apply(g, inside)


def expected(kinds, around=()):
    formula = Formula(kinds, around)
    return np.array([formula.step(x) for x in GRADIENTS]), formula.updates


# ---- Steps outside of models ----

def trained(kinds, strategy=None):
    """(the variable after each step, the optimizer's number of steps), with a strategy on an IPU
    and otherwise on the CPU."""
    opt, variable, found = made(kinds), tf.Variable(START), []

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * x)
        opt.minimize(loss, [variable], tape=tape)

    run = tf.function(step, jit_compile=True) if strategy else step
    for x in GRADIENTS:
        strategy.run(run, [tf.constant(x)]) if strategy else run(x)
        found.append(variable.numpy())
    return np.array(found), int(opt.iterations)


def check(kinds, strategy=None):
    found, wanted = trained(kinds, strategy), expected(kinds)
    np.testing.assert_allclose(found[0], wanted[0], rtol=2e-4, atol=2e-5, err_msg=f"{kinds}")
    assert found[1] == wanted[1], kinds


ON_CPUS = [kind for kind in KINDS if kind != "replicas"]  # which only a program for IPUs has


def stacks(size, kinds=tuple(ON_CPUS)):
    """Keras refuses a LossScaleOptimizer in another one."""
    return [one for one in itertools.product(kinds, repeat=size) if one.count("loss scale") < 2]


@pytest.mark.parametrize("outer", ON_CPUS)
def test_pairs(outer):
    for kinds in [(outer,), *stacks(2)]:
        if kinds[0] == outer:
            check(kinds)


@pytest.mark.parametrize("kinds", random.Random(1).sample(stacks(3), 24))
def test_some_triples(kinds):
    check(kinds)


@pytest.mark.long
@pytest.mark.parametrize("outer", stacks(2))
def test_triples(outer):
    for kinds in stacks(3):
        if kinds[:2] == outer:
            check(kinds)


ON_IPUS = random.Random(2).sample(stacks(3, tuple(KINDS)), 100)


@pytest.mark.parametrize("kinds", [
    pytest.param(kinds, marks=[pytest.mark.long] * (i > 5)) for i, kinds in enumerate(ON_IPUS)])
def test_on_an_ipu(strategy, kinds):
    with strategy.scope():
        check(kinds, strategy)


# ---- What fit() puts around them ----

FITTED = [("als", "map"), ("inverted", "als"), *(pytest.param(kinds, marks=pytest.mark.long)
          for kinds in (("map", "als"), ("inverted", "sum"), ("loss scale", "als", "map"),
                        ("mean", "map", "inverted"), ("base", "forerunner")))]


def fitted(kinds, count, by_variable, pipelined):
    """The weights after an epoch of STEPS mini-batches of one sample, whose loss is the output."""
    inputs = keras.Input((3,), batch_size=1)
    with ipu.keras.PipelineStage(0):
        outputs = keras.layers.Dense(1, use_bias=False)(inputs)
    with ipu.keras.PipelineStage(1):
        outputs = keras.layers.Lambda(tf.identity)(outputs)
    model = keras.Model(inputs, outputs)
    if pipelined:
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)
    else:
        model.reset_pipeline_stage_assignment()
        model.set_gradient_accumulation_options(
            count, use_v2_gradient_accumulation_optimizer=by_variable)
    model.set_weights([START[:, None]])
    model.compile(made(kinds), lambda _, found: tf.reduce_sum(found), steps_per_execution=STEPS)
    model.fit(GRADIENTS, np.zeros([STEPS, 1], "float32"), batch_size=1, shuffle=False, verbose=0)
    return model.get_weights()[0][:, 0]


@pytest.mark.parametrize("ipus, count, by_variable", [
    (1, 1, False), (1, 2, False), (1, 2, True), (2, 4, False)],
    ids=["plain", "added up", "by variable", "pipelined"])
@pytest.mark.parametrize("kinds", FITTED, ids=" ".join)
def test_fit(strategy, kinds, ipus, count, by_variable):
    """An ALSOptimizer becomes one that counts the gradients of each mini-batch."""
    around = {1: [], 2: ["sum"], 4: ["sum of 4"]}[count]
    with strategy.scope():
        found = fitted(kinds, count, by_variable, ipus == 2)
    if kinds[0] == "als" and count == 2:
        kinds, around = ["als sum", *kinds[1:]], []
    np.testing.assert_allclose(found, expected(kinds, around)[0][-1], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kinds", FITTED, ids=" ".join)
def test_fit_of_sdk_2_1(strategy, kinds, count):
    data = tf.data.Dataset.from_tensor_slices((GRADIENTS, np.zeros([STEPS, 1], "float32")))
    with strategy.scope():
        model = ipu.keras.Sequential([keras.layers.Dense(1, use_bias=False)],
                                     gradient_accumulation_count=count)
        model.build((1, 3))
        model.set_weights([START[:, None]])
        model.compile(made(kinds), lambda _, found: tf.reduce_sum(found))
        model.fit(data.batch(1, drop_remainder=True), verbose=0)
        found = model.get_weights()[0][:, 0]
    wanted = expected(kinds, ["sum"] if count == 2 else [])[0][-1]
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
