"""float16 in Keras on the IPU Model, which stores it as float32 (docs/numbers.md)."""

import fitting
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.keras import optimizers

keras = tf.keras
layers = keras.layers
MODEL = "--use_ipu_model"


@pytest.fixture(params=[MODEL, MODEL + " --ipu_model_accurate_half"], ids=["floats", "rounded"])
def rounds(request, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", request.param)
    yield request.param != MODEL
    ipu.config.reset_ipu_configuration()


def half(kind, units, value, **options):
    return kind(units, dtype=tf.float16, use_bias=False,
                kernel_initializer=keras.initializers.Constant(value), **options)


@pytest.mark.parametrize("accumulates", [True, False])
def test_results_of_a_pipeline(rounds, accumulates):
    """An absolute error of 99 900, and its square, of halves."""
    x = tf.data.Dataset.from_tensors((np.full([2, 1], 300, "float16"), np.zeros([2, 1], "float16")))
    with fitting.scope(2):
        inputs = keras.Input([1], dtype=tf.float16)
        with ipu.keras.PipelineStage(0):
            y = half(layers.Dense, 1, 333)(inputs)
        with ipu.keras.PipelineStage(1):
            y = half(layers.Dense, 1, 1)(y)
        model = keras.Model(inputs, y)
        model.set_pipelining_options(accumulate_outfeed=accumulates,
                                     accumulate_outfeed_dtype=tf.float32)
        model.compile(loss="mse", metrics=["mae"], steps_per_execution=4)
        found = model.evaluate(x.repeat(4), verbose=0)
    if rounds:
        assert not np.any(np.isfinite(found))
    else:
        np.testing.assert_allclose(found, [99900. ** 2, 99900], rtol=1e-6)


def test_automatic_loss_scaling(rounds):
    """The factor doubles until gradients leave float16: they stay numbers, as on the original."""
    x = np.linspace(-1, 1, 64, dtype="float16").reshape(16, 4)
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4, drop_remainder=True).repeat()
    with fitting.scope():
        model = keras.Sequential([
            layers.Input([4], dtype=tf.float16), half(layers.Dense, 16, 0.1, activation="relu"),
            half(layers.Dense, 1, 0.1)])
        optimizer = optimizers.ALSOptimizer(
            keras.optimizers.legacy.SGD(0.01), update_frequency=2, increase_factor=2,
            max_loss_scaling_factor=2 ** 30, histogram_bin_edge=1e30)
        model.compile(optimizer, "mse", steps_per_execution=64)
        losses = model.fit(data, epochs=2, steps_per_epoch=64, verbose=0).history["loss"]
        weights = model.get_weights()
    finite = np.all(np.isfinite(losses)) and all(np.isfinite(one).all() for one in weights)
    assert finite != rounds
