"""LSTM and GRU against Keras' own."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tensorflow.python.ipu.keras import layers

FORMS = [
    ("LSTM", {}),
    ("LSTM", {"return_sequences": True, "return_state": True, "time_major": True}),
    ("GRU", {"return_sequences": True}),
    ("GRU", {"reset_after": False, "return_state": True}),
]
FORM = pytest.mark.parametrize("name, options", FORMS)


def pair(name, options):
    """(the IPU's layer, Keras' layer) with the same weights, and inputs."""
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype("float32")
    ours, stock = getattr(layers, name)(5, **options), getattr(keras.layers, name)(5, **options)
    stock(x)
    ours.build(x.shape)
    ours.set_weights(stock.get_weights())
    return ours, stock, x


def near(ours, stock):
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(stock), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@FORM
def test_outputs_and_gradients(name, options):
    found = []
    ours, stock, x = pair(name, options)
    for layer in (ours, stock):
        variable = tf.Variable(x)
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(layer(variable, training=True))
            loss = tf.add_n([tf.reduce_sum(one ** 2) for one in outputs])
        found.append([*outputs, *tape.gradient(loss, [variable, *layer.trainable_variables])])
    near(*found)


@FORM
def test_gradients_of_a_call_without_training(name, options):
    found = []
    ours, stock, x = pair(name, options)
    for layer in (ours, stock):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nest.flatten(layer(x, training=False))[0] ** 2)
        found.append(tape.gradient(loss, layer.trainable_variables))
    near(*found)


def test_on_an_ipu(strategy):
    ours, stock, x = pair("LSTM", {})
    with strategy.scope():
        layer = layers.LSTM(5)
        layer.build(x.shape)
        layer.set_weights(stock.get_weights())
        result = strategy.run(tf.function(layer, jit_compile=True), [tf.constant(x)])
    near(result, stock(x))


@pytest.mark.parametrize("name, states", [("LSTM", 2), ("GRU", 1)])
def test_initial_state(name, states):
    ours, stock, x = pair(name, {})
    state = [tf.fill([2, 5], 0.1 * (one + 1)) for one in range(states)]
    near(ours(x, initial_state=state), stock(x, initial_state=state))
    inputs = [keras.Input((4, 3), 2), *(keras.Input((5,), 2) for _ in state)]
    model = keras.Model(inputs, ours(inputs[0], initial_state=inputs[1:]))
    near(model([x, *state]), stock(x, initial_state=state))


def test_stateful():
    x = np.random.default_rng(2).normal(size=(2, 4, 3)).astype("float32")
    ours, stock = layers.GRU(5, stateful=True), keras.layers.GRU(5, stateful=True)
    stock(x)
    stock.reset_states()
    ours.build(x.shape)
    ours.set_weights(stock.get_weights())  # states are no weights
    near([ours(x), ours(x)], [stock(x), stock(x)])
    ours.reset_states()
    stock.reset_states()
    near(ours(x), stock(x))


def test_dropout_is_for_training():
    layer = layers.LSTM(5, dropout=0.9, dropout_seed=(1, 2))
    x = tf.ones([2, 4, 3])
    assert not np.allclose(layer(x, training=True), layer(x, training=False))
    near(layer(x, training=True), layer(x, training=True))  # one seed


@FORM
def test_configuration_and_weights(name, options):
    ours, stock, _ = pair(name, options)
    config = ours.get_config()
    assert type(ours).from_config(config).get_config() == config
    assert "name" not in config and "dtype" not in config
    assert [one.shape for one in ours.weights] == [one.shape for one in stock.weights]
    assert [one.name.split("/")[-1] for one in ours.weights] == [
        "kernel:0", "recurrent_kernel:0", "biases:0"]


@pytest.mark.parametrize("name, options, words", [
    ("LSTM", {"use_bias": False}, "LSTM layer does not support use_bias = False."),
    *[(name, {key: "l2"}, f"{name} layer does not support {key}.")
      for name in ("LSTM", "GRU")
      for key in ("kernel_regularizer", "recurrent_regularizer", "bias_regularizer",
                  "activity_regularizer", "kernel_constraint", "recurrent_constraint",
                  "bias_constraint")],
    ("LSTM", {"recurrent_dropout": 0.1}, "LSTM layer does not support recurrent_dropout."),
    ("GRU", {"recurrent_dropout": 0.1}, "GRU layer does not support recurrent_dropout != 0."),
    ("LSTM", {"implementation": 3}, "LSTM layer does not support implementation != 1."),
    ("LSTM", {"go_backwards": True}, "LSTM layer does not support go_backwards = True."),
    ("GRU", {"go_backwards": True}, "GRU layer does not support go_backwards."),
    ("LSTM", {"unroll": True}, "LSTM layer does not support unroll = True."),
    ("GRU", {"unroll": True}, "GRU layer does not support unroll."),
    ("GRU", {"activation": "elu"}, "IPU custom RNN layer does not support 'elu' as an activation. "
     'Acceptable value are "tanh","relu","softmax","sigmoid","hard_sigmoid"'),
    ("GRU", {"recurrent_activation": "relu"}, "IPU custom RNN layer does not support 'relu' as a "
     'recurrent activation. Acceptable value are "tanh","softmax","sigmoid","hard_sigmoid"'),
    ("LSTM", {"dtype": "float64"}, "Only support float16, float32, provided <dtype: 'float64'>"),
])
def test_what_is_refused(name, options, words):
    with pytest.raises(ValueError) as error:
        getattr(layers, name)(5, **options)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_memory_proportions_of_sdk_2_4(name):
    """They are options of the products, and change no number."""
    make = getattr(layers, name)
    _, stock, x = pair(name, {})
    ours = make(5, available_memory_proportion_fwd=0.3, available_memory_proportion_bwd=0.2)
    ours.build(x.shape)
    ours.set_weights(stock.get_weights())
    near(ours(x), stock(x))
    with pytest.raises(ValueError, match="available_memory_proportion_bwd"):
        make(5, available_memory_proportion_bwd=2)


def test_shapes_that_are_refused():
    layer = layers.LSTM(5)
    with pytest.raises(ValueError, match="`_input_size` is unknown because the layer has not been"):
        layer.input_size
    with pytest.raises(ValueError, match="Expecting input_shape with 3 dims, got 2"):
        layer.build([2, 3])
    with pytest.raises(ValueError, match="last dimension of the inputs to `_PopnnRNN` should be"):
        layer.build([2, 3, None])
    with pytest.raises(NotImplementedError, match="PopnnLSTM does not support call argument mask"):
        layer(tf.ones([2, 4, 3]), mask=tf.ones([2, 4], tf.bool))
