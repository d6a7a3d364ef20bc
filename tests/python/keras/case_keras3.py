"""Unmodified models of Keras 3 in the scope of an IPUStrategy against the same on the CPU."""

import os

import numpy as np
import pytest

os.environ.pop("TF_USE_LEGACY_KERAS", None)
import keras  # noqa: E402  before Tremula asks TensorFlow for Keras 2

if not keras.__version__.startswith("3"):
    pytest.skip("this TensorFlow comes with Keras 2", allow_module_level=True)

import tensorflow as tf  # noqa: E402

import tremula._finder  # noqa: E402, F401  (serves tensorflow.python.ipu)

from tensorflow.python import ipu  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((88, 20)).astype("float32")
Y = (X[:, :4].sum(1) > 0).astype("int32")


class Own(keras.Model):
    """A subclassed model."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        self.hidden = keras.layers.Dense(16, "tanh")
        self.norm = keras.layers.BatchNormalization()
        self.last = keras.layers.Dense(2)

    def call(self, inputs, training=False):
        return self.last(self.norm(self.hidden(inputs), training=training))


def functional():
    inputs = keras.Input((20,))
    hidden = keras.layers.Dense(16, "relu", kernel_regularizer="l2")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(hidden))


def sequential():
    return keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(2)])


class Steps(keras.callbacks.Callback):
    """Counts the ends of executions."""
    ends = 0

    def on_train_batch_end(self, batch, logs=None):
        self.ends += 1


def trained(make, optimizer, steps):
    """(history, evaluation, predictions, weights, executions)."""
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], steps_per_execution=steps)
    count = Steps()
    history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0, validation_data=(X[:20], Y[:20]),
                        class_weight={0: 1., 1: 2.}, callbacks=[count], shuffle=False).history
    return (history, model.evaluate(X, Y, batch_size=16, verbose=0),
            model.predict(X, batch_size=16, verbose=0), model.get_weights(), count.ends)


@pytest.mark.parametrize("make, optimizer, steps, executions", [
    # Six batches an epoch, the last of which is smaller.
    pytest.param(functional, keras.optimizers.Adam, 1, 12, marks=pytest.mark.long),
    (sequential, lambda: keras.optimizers.SGD(.1, .9), 4, 4),
    (Own, keras.optimizers.RMSprop, 3, 4)])
def test_training_equals_the_cpu(strategy, make, optimizer, steps, executions):
    history, evaluation, predictions, weights, _ = trained(make, optimizer, steps)
    with strategy.scope():
        found = trained(make, optimizer, steps)
    assert found[4] == executions
    assert list(found[0]) == list(history)
    for name, values in history.items():
        np.testing.assert_allclose(found[0][name], values, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(found[1], evaluation, rtol=1e-4)
    np.testing.assert_allclose(found[2], predictions, rtol=1e-4, atol=1e-5)
    for one, wanted in zip(found[3], weights):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


def test_single_batches(strategy):
    def losses():
        keras.utils.set_random_seed(3)
        model = functional()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return [*(model.train_on_batch(X[:8], Y[:8]) for _ in range(2)),
                model.test_on_batch(X, Y), model.predict_on_batch(X[:3])]

    wanted = losses()
    with strategy.scope():
        found = losses()
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_second_fit_compiles_nothing(strategy):
    from tremula.tf.runtime.device import plugin
    with strategy.scope():
        model = functional()
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=2)
        model.fit(X[:64], Y[:64], batch_size=16, epochs=1, verbose=0)
        before = plugin.library().trm_tf_units_built()
        model.fit(X[:64] + 1, Y[:64], batch_size=16, epochs=2, verbose=0)
        assert plugin.library().trm_tf_units_built() == before


def test_what_needs_keras_2_is_said(strategy):
    with strategy.scope():
        model = functional()
        assert not hasattr(model, "set_pipelining_options")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, run_eagerly=True)
        with pytest.raises(RuntimeError, match="cannot run eagerly"):
            model.fit(X, Y, verbose=0)
        model.compile("sgd", loss)
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        with pytest.raises(ValueError, match="runs on one IPU, .* TF_USE_LEGACY_KERAS=1"):
            model.fit(X, Y, verbose=0)


def test_models_of_the_cpu_are_not_compiled():
    assert any(one.device_type == "IPU" for one in tf.config.list_physical_devices())
    model = functional()
    model.compile("sgd", "mse")
    assert model.jit_compile is False
