"""The model classes of SDK 2.1 against stock Keras on the CPU: weights, history, evaluate, predict.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

from tremula.tf.keras import optimizers

legacy = keras.optimizers.legacy
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((64, 6)).astype("float32")
Y = (X @ RANDOM.standard_normal((6, 2))).astype("float32")

OPTIMIZERS = {
    "SGD": lambda: legacy.SGD(0.1), "momentum": lambda: legacy.SGD(0.1, 0.9),
    "Adam": lambda: legacy.Adam(0.05), "RMSprop": lambda: legacy.RMSprop(0.01),
    "ipu_adam": lambda: optimizers.AdamIpuOptimizer(0.05),
    "lamb": lambda: optimizers.LAMBIpuOptimizer(0.05),
    "new": lambda: keras.optimizers.SGD(0.1, 0.9),
    "native": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)}

# Mini-batches of a step, replicas, steps of an execution.
FORMS = {"plain": (1, 1, None), "accumulated": (4, 1, None), "replicas": (1, 2, None),
         "in runs": (4, 1, 2), "all": (4, 2, 2)}


def data(batch):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch, drop_remainder=True)


def layers():
    keras.utils.set_random_seed(5)
    first = keras.layers.Dense(5, activation="tanh")
    last = keras.layers.Dense(2)
    first.build((None, 6))
    last.build((None, 5))
    return first, last


def stock():
    first, last = layers()
    inputs = keras.Input((6,))
    return keras.Model(inputs, last(first(inputs)))


def sequential(count):
    return ipu.keras.Sequential(list(layers()), gradient_accumulation_count=count)


def model(count):
    first, last = layers()
    inputs = keras.Input((6,))
    return ipu.keras.Model(inputs, last(first(inputs)), gradient_accumulation_count=count)


def pipeline_sequential(count):
    return ipu.keras.PipelineSequential([[one] for one in layers()],
                                        gradient_accumulation_count=count)


def pipeline_model(count):
    first, last = layers()
    inputs = keras.Input((6,))
    with ipu.keras.PipelineStage(0):
        hidden = first(inputs)
    with ipu.keras.PipelineStage(1):
        outputs = last(hidden)
    return ipu.keras.PipelineModel(inputs, outputs, gradient_accumulation_count=count)


def divided(by):
    def loss(wanted, found):
        return tf.reduce_mean(tf.square(wanted - found), -1) / by
    return loss


def configured(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


@pytest.fixture(scope="module")
def expected():
    """expected(optimizer, batch): a stock model after two epochs, and its history."""
    known = {}

    def find(name, batch):
        if (name, batch) not in known:
            made = stock()
            kind = OPTIMIZERS["momentum" if name in ("native", "new") else name]
            made.compile(kind(), loss=divided(1), metrics=["mae"])
            known[name, batch] = made, made.fit(data(batch), epochs=2, verbose=0).history
        return known[name, batch]

    return find


CASES = [(make, form, "SGD") for make, forms in (
    (sequential, ("accumulated", "replicas")), (model, ("plain", "in runs", "all")),
    (pipeline_sequential, ("accumulated", "in runs")), (pipeline_model, ("all",)))
         for form in forms]
CASES += [(make, form, optimizer) for make, form, names in (
    (model, "plain", ("momentum", "Adam")), (model, "all", ("lamb",)),
    (sequential, "accumulated", ("ipu_adam", "new", "native")),
    (pipeline_sequential, "accumulated", ("lamb",)),
    (pipeline_model, "all", ("RMSprop", "native")))
          for optimizer in names]


@pytest.mark.parametrize("make, form, optimizer", CASES)
def test_weights_and_history(expected, make, form, optimizer):
    """case_matrix_sdk21.py tests the other combinations."""
    check_training(expected, make, form, optimizer)


def check_training(expected, make, form, optimizer):
    count, replicas, steps_per_run = FORMS[form]
    summands = count * replicas
    batch = 32 // summands if steps_per_run is None else 16 // summands
    strategy = configured(replicas * (2 if make.__name__.startswith("pipeline") else 1))
    with strategy.scope():
        made = make(count)
        opt = OPTIMIZERS[optimizer]()
        if optimizer == "native" and replicas > 1:
            opt = ipu.optimizers.CrossReplicaOptimizer(opt)  # the mean of the replicas' gradients
            summands = count
        made.compile(opt, loss=divided(summands), metrics=["mae"])
        assert made.replication_factor == replicas
        history = made.fit(data(batch), epochs=2, verbose=0, steps_per_run=steps_per_run)
        if optimizer == "SGD":
            outputs = made.predict(data(batch).map(lambda x, y: x))
            found = made.evaluate(data(batch), verbose=0)
    reference, wanted = expected(optimizer, batch * count * replicas)
    for ours, theirs in zip(made.get_weights(), reference.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.array(history.history["loss"]) * summands, wanted["loss"],
                               rtol=1e-5)
    if replicas == 1:  # else it is one replica's
        np.testing.assert_allclose(history.history["mae"], wanted["mae"], rtol=1e-5)
    if optimizer != "SGD":
        return
    np.testing.assert_allclose(outputs, reference.predict(X, verbose=0), rtol=1e-4, atol=1e-5)
    theirs = reference.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(found[0] * summands, theirs[0], rtol=1e-5)
    assert isinstance(found, list) and len(found) == 2
