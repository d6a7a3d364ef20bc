"""Pipelines of Keras models next to stock Keras on the CPU: weights, metrics and predictions."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tremula.tf.keras import optimizers

keras = tf.keras
Schedule = ipu.ops.pipelining_ops.PipelineSchedule
PipelineStage = ipu.keras.PipelineStage

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal([64, 6]).astype(np.float32)
Y = (X @ RANDOM.standard_normal([6, 2])).astype(np.float32)
BATCH, COUNT = 2, 4
OTHERS = ["adam", "momentum", "rmsprop", "ipu_adam", "lamb"]


@pytest.fixture
def strategy_of():
    """strategy_of(ipus): an IPUStrategy over so many IPUs."""
    def make(ipus):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
        config.configure_ipu_system()
        return ipu.ipu_strategy.IPUStrategy()

    yield make
    ipu.config.reset_ipu_configuration()


def dataset(*arrays, batch=BATCH):
    arrays = arrays or (X, Y)
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch, drop_remainder=True)


def layers():
    keras.utils.set_random_seed(5)
    return [keras.layers.Dense(5, activation="tanh", kernel_regularizer="l2"),
            keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]


class _Subclass(keras.Model):
    def __init__(self, stages=None):
        super().__init__()
        self.all, self.stages = layers(), stages

    def call(self, x):
        for number, layer in enumerate(self.all):
            if self.stages is None:
                x = layer(x)
            else:
                with PipelineStage(self.stages[number]):
                    x = layer(x)
        return x


def functional(stages=None):
    first, second, last = layers()
    x = keras.Input((6,))
    if stages is None:
        return keras.Model(x, last(second(first(x))))
    with PipelineStage(stages[0]):
        h = first(x)
    with PipelineStage(stages[1]):
        h = second(h)
    with PipelineStage(stages[2]):
        return keras.Model(x, last(h))


def sequential(stages=None):
    model = keras.Sequential(layers())
    if stages is not None:
        model.set_pipeline_stage_assignment(list(stages))
    return model


KINDS = {"functional": functional, "sequential": sequential, "subclass": _Subclass}


def optimizer(name, replicas=1):
    """An optimizer; replicas add their gradients up, of which all but SGD see the size hardly at
    all."""
    if name in ("sgd", "momentum"):
        return keras.optimizers.legacy.SGD(.05 / replicas, 0. if name == "sgd" else .5)
    kind = {"adam": keras.optimizers.Adam, "rmsprop": keras.optimizers.legacy.RMSprop,
            "ipu_adam": optimizers.AdamIpuOptimizer, "lamb": optimizers.LAMBIpuOptimizer}[name]
    return kind(.01, epsilon=1e-5 * replicas)


def compiled(model, name, replicas=1, steps=None, **keywords):
    model.compile(optimizer(name, replicas), "mse", metrics=["mae"], **keywords,
                  steps_per_execution=steps or len(X) // BATCH // replicas)
    return model


@pytest.fixture(scope="module")
def stock():
    """stock(optimizer, replicas): weights, history, and then the results of evaluate() and
    predict(), of Keras on the CPU."""
    known = {}

    def make(name, replicas):
        assert not tf.distribute.has_strategy()
        if (name, replicas) not in known:
            model = compiled(functional(), name, steps=1)
            history = model.fit(X, Y, BATCH * COUNT * replicas, 2, verbose=0, shuffle=False)
            known[name, replicas] = (model.get_weights(), history.history,
                                     model.evaluate(X, Y, BATCH, verbose=0),
                                     model.predict(X, BATCH, verbose=0))
        return known[name, replicas]

    return make


def check_weights(model, wanted):
    found = model.get_weights()
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def options(model, **keywords):
    model.set_pipelining_options(**{
        "gradient_accumulation_steps_per_replica": COUNT,
        "gradient_accumulation_reduction_method": "mean", **keywords})
    return model


def check_training(strategy_of, stock, kind, replicas, schedule, name):
    weights, wanted, measured, predicted = stock(name, replicas)
    with strategy_of(2 * replicas).scope():
        model = options(KINDS[kind]([0, 1, 1]), pipeline_schedule=schedule)
        compiled(model, name, replicas)
        history = model.fit(dataset(), epochs=2, verbose=0).history
        if schedule is not Schedule.Sequential:
            found = model.predict(dataset(X), verbose=0)
            np.testing.assert_allclose(found, predicted, rtol=1e-4, atol=1e-5)
        elif replicas == 1:
            np.testing.assert_allclose(model.evaluate(dataset(), verbose=0), measured, rtol=1e-4)
    check_weights(model, weights)
    if replicas == 1:
        for key, values in wanted.items():
            np.testing.assert_allclose(history[key], values, rtol=1e-4)


def quick(kind, replicas, schedule):
    """The optimizers that this file tests of a combination; case_matrix_pipelines.py has the
    others. Each optimizer has a pipeline here, and replicas in case_fit_equal.py."""
    if schedule is Schedule.Grouped and replicas == 1:
        return ["sgd", *(OTHERS if kind == "functional" else OTHERS[:1])]
    if kind != "functional":
        return ["sgd"] if replicas == 1 else []
    if replicas == 1:
        return ["momentum" if schedule is Schedule.Interleaved else "rmsprop"]
    return ["sgd", *(OTHERS[:1] if schedule is Schedule.Grouped else [])]


COMBINATIONS = [one for one in itertools.product(KINDS, (1, 2), Schedule) if quick(*one)]


@pytest.mark.parametrize("kind, replicas, schedule", COMBINATIONS)
def test_training_equals_stock_keras(strategy_of, stock, kind, replicas, schedule):
    for name in quick(kind, replicas, schedule):
        check_training(strategy_of, stock, kind, replicas, schedule, name)
