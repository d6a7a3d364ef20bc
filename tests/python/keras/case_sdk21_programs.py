"""Programs as users of SDK 2.0 and 2.1 wrote them: with the names of that TensorFlow, and as the
documentation tells them to."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python import keras
from tensorflow.python.keras import layers
from tensorflow.python.keras.layers import Dense, Layer
from tensorflow.python.keras.optimizer_v2.gradient_descent import SGD

RANDOM = np.random.default_rng(4)
IMAGES = RANDOM.random((64, 6, 6)).astype("float32")
LABELS = (IMAGES.sum((1, 2)) > 18).astype("int32")


def configure(ipus):
    config = ipu.utils.create_ipu_config()
    config = ipu.utils.auto_select_ipus(config, ipus)
    ipu.utils.configure_ipu_system(config)
    return ipu.ipu_strategy.IPUStrategy()


def create_dataset(batch=8):
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(batch, drop_remainder=True)
    dataset = dataset.map(lambda x, y: (tf.cast(x, tf.float32), tf.cast(y, tf.float32)))
    return dataset.repeat().prefetch(16)


class Scale(Layer):
    """A layer of the program's own."""

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=(int(input_shape[-1]),),
                                     initializer="ones")
        super().build(input_shape)

    def call(self, inputs):
        return inputs * self.scale


def learns(history, **also):
    losses = history.history["loss"]
    assert losses[-1] < losses[0] and np.isfinite(losses).all()
    for name, count in also.items():
        assert len(history.history[name]) == count


def test_sequential():
    with configure(1).scope():
        model = ipu.keras.Sequential([
            layers.Flatten(), Dense(16, activation="relu"), Scale(),
            Dense(2, activation="softmax")])
        model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(),
                      optimizer=tf.keras.optimizers.RMSprop(0.01), metrics=["accuracy"])
        learns(model.fit(create_dataset(), steps_per_epoch=16, epochs=3, verbose=0), accuracy=3)
        model.summary(print_fn=lambda line: None)
        assert model.evaluate(create_dataset(), steps=8)[1] > 0.5
        assert model.predict(create_dataset().map(lambda x, y: x), steps=8).shape == (64, 2)
    assert [one.name for one in model.weights][2:3] == ["scale/scale:0"]
    assert isinstance(model, tf.keras.Model) and isinstance(model, keras.Model)


def test_model():
    with configure(1).scope():
        input_layer = keras.Input(shape=(6, 6))
        x = tf.reshape(input_layer, (-1, 36)) * 2.0
        x = Dense(16, activation="relu")(x)
        model = ipu.keras.Model(inputs=input_layer, outputs=Dense(2)(x),
                                gradient_accumulation_count=4)
        model.compile(SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        learns(model.fit(create_dataset(), steps_per_epoch=4, epochs=3, verbose=0))


def test_pipeline_sequential():
    with configure(2).scope():
        model = ipu.keras.PipelineSequential(
            [[layers.Flatten(), Dense(16, activation="relu")], [Dense(2, activation="softmax")]],
            gradient_accumulation_count=8)
        model.compile(loss="sparse_categorical_crossentropy", optimizer="adam",
                      metrics=["accuracy"])
        learns(model.fit(create_dataset(2), steps_per_epoch=4, epochs=3, verbose=0))


def test_pipeline_model_on_replicas():
    with configure(4).scope():
        inputs = keras.Input(shape=(6, 6))
        with ipu.keras.PipelineStage(0):
            x = layers.Flatten()(inputs)
            x = Dense(16, activation="relu")(x)
        with ipu.keras.PipelineStage(1):
            x = Dense(2)(x)
        model = ipu.keras.PipelineModel(inputs, x, gradient_accumulation_count=4)
        model.compile(SGD(0.005), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        history = model.fit(create_dataset(2), steps_per_epoch=8, steps_per_run=2, epochs=3,
                            verbose=0)
    learns(history)
    assert history.params["steps"] == 4  # of a replica


def test_layers_and_optimizers_of_the_ipu():
    with configure(1).scope():
        model = ipu.keras.Sequential([
            ipu.keras.layers.Dropout(0.1), ipu.keras.layers.LSTM(5), ipu.keras.layers.LayerNorm(),
            Dense(2)])
        optimizer = ipu.keras.optimizers.MapGradientOptimizer(SGD(0.05), lambda g, v: g * 2)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        learns(model.fit(create_dataset(), steps_per_epoch=16, epochs=4, verbose=0))


def test_rates_that_fall():
    with configure(2).scope():
        model = ipu.keras.Sequential([layers.Flatten(), Dense(2)], gradient_accumulation_count=2)
        model.compile(SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)), "mse")
        model.fit(create_dataset(), steps_per_epoch=6, verbose=0)
        assert int(model.optimizer.iterations) == 3  # updates of a replica


def test_no_loop_of_ones_own():
    strategy = configure(2)
    with strategy.scope():
        model = ipu.keras.PipelineSequential([[Dense(2)], [Dense(2)]],
                                             gradient_accumulation_count=4)

        @tf.function(experimental_compile=True)
        def step(x):
            return model(x)

        with pytest.raises(ValueError, match="PipelineSequential can only be called through the "
                           "`fit`, `evaluate` or `predict` interfaces."):
            strategy.experimental_run_v2(step, args=[tf.ones((2, 2))])


def test_the_page(capsys):
    page = pathlib.Path(__file__).resolve().parents[3] / "docs/keras_2_1.md"
    program = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL).group(1)
    inside = {"__name__": "program"}
    exec(compile(program, "program.py", "exec"), inside)  # noqa: S102
    learns(inside["model"].history)
    assert "2/2 [" in capsys.readouterr().out  # 16 mini-batches are two steps
