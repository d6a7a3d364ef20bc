"""The other layers, against Keras' own, the IPU's operations and NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tensorflow.python import ipu
from tensorflow.python.ipu.keras import layers
from tensorflow.python.ipu.ops import f8_ops, nn_ops

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 6, 8)).astype("float32")


def with_gradients(layer, x=X):
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        output = layer(variable)
        loss = tf.reduce_sum(output ** 2 * 0.5 + output)
    return [output, *tape.gradient(loss, [variable, *layer.trainable_variables])]


def same(ours, stock, tolerance=1e-4):
    for one, other in zip(ours, stock, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def like(ours, stock, x=X):
    """Both layers, with random weights of the second."""
    stock.build(x.shape)
    ours.build(x.shape)
    stock.set_weights([RNG.normal(size=one.shape) for one in stock.get_weights()])
    ours.set_weights(stock.get_weights())
    assert [one.name for one in ours.weights] == [one.name for one in stock.weights]
    return ours, stock


@pytest.mark.parametrize("axis", [-1, [1, 2], [1]])
def test_layer_normalization(axis):
    ours, stock = like(layers.LayerNormalization(axis), keras.layers.LayerNormalization(axis))
    same(with_gradients(ours), with_gradients(stock))


@pytest.mark.parametrize("kind, axis, shape", [
    ("Layer", -1, [None, None, 8]), ("Layer", [2, -1], [None, None, 4, 8]),
    ("Layer", 1, [None, 6, None]), ("Group", -1, [None, None, 8]), ("Group", 1, [None, 6, None]),
    ("Instance", -1, [None, None, None, 8]), ("Instance", 1, [None, 6, None])])
def test_normalization_of_sizes_that_are_not_known(kind, axis, shape):
    """In Keras' graph only the sizes of the variables are known; the data has the others."""
    name = "axis" if kind == "Layer" else "channels_axis"
    layer = getattr(layers, f"{kind}Normalization")(
        **{name: axis}, beta_initializer="zeros", gamma_initializer="ones")
    layer.build(shape)
    layer.set_weights([RNG.normal(size=one.shape) for one in layer.get_weights()])
    inputs = keras.Input(shape[1:])
    outputs = layer(inputs)
    assert outputs.shape.as_list() == shape
    known = type(layer).from_config(layer.get_config())
    x = RNG.normal(size=[size or 3 for size in shape]).astype("float32")
    known.build(x.shape)
    known.set_weights(layer.get_weights())
    same(with_gradients(keras.Model(inputs, outputs), x), with_gradients(known, x), 1e-6)


def test_group_and_instance_normalization():
    initializers = {"beta_initializer": "zeros", "gamma_initializer": "ones"}
    ours, stock = like(
        layers.GroupNormalization(4, strided_channel_grouping=False, **initializers),
        keras.layers.GroupNormalization(4))
    same(with_gradients(ours), with_gradients(stock))
    strided = layers.GroupNormalization(4, **initializers)(X)
    order = np.arange(8).reshape(2, 4).T.flatten()
    plain = layers.GroupNormalization(4, strided_channel_grouping=False, **initializers)(
        X[..., order])
    same([strided.numpy()[..., order]], [plain])
    ours, stock = like(layers.InstanceNormalization(**initializers),
                       keras.layers.GroupNormalization(8))
    same(with_gradients(ours), with_gradients(stock))


@pytest.mark.parametrize("make, shape, words", [
    (lambda: layers.GroupNorm(), None, "Input has undefined rank."),
    (lambda: layers.GroupNorm(channels_axis=5), [2, 4], "Axis is out of bounds."),
    (lambda: layers.GroupNorm(9), [2, 4], "Invalid groups 9 for 4 channels."),
    (lambda: layers.GroupNorm(3), [2, 4], "4 channels is not commensurate with 3 groups."),
    (lambda: layers.GroupNorm(2, 2), [2, 4, 4, 4], "Unsupported data format, group norm only "
     "supports NCHW(channel axis 1) and NHWC (channel axis -1)."),
    (lambda: layers.LayerNorm("a"), [2], "Expected an int or a list/tuple of ints for the argument "
     "'axis', but received instead: a"),
    (lambda: layers.LayerNorm(3), [2, 4], "Invalid axis: 3"),
    (lambda: layers.LayerNorm([1, -1]), [2, 4], "Duplicate axis: (1, 1)"),
    (lambda: layers.LayerNorm([1, 2]), [2, None, 4], "Input shape (2, None, 4) has unknown "
     "dimensions - all dimensions need to be fully specified."),
])
def test_what_normalization_refuses(make, shape, words):
    with pytest.raises(ValueError) as error:
        make().build(tf.TensorShape(shape))
    assert words in str(error.value)


def test_embedding():
    ids = np.array([[1, 2, 1], [0, 4, 4]])
    ours, stock = layers.Embedding(5, 3), keras.layers.Embedding(5, 3)
    stock.build([2, 3])
    ours.build([2, 3])
    ours.set_weights(stock.get_weights())
    gradients = []
    for layer in (ours, stock):
        with tf.GradientTape() as tape:
            output = layer(ids)
            loss = tf.reduce_sum(output ** 2)
        gradients.append([output, tf.convert_to_tensor(
            tape.gradient(loss, layer.trainable_variables[0]))])
    same(*gradients)
    assert ours.weights[0].name == stock.weights[0].name
    with pytest.raises(ValueError, match="should be a tensor of shape .batch, input_length."):
        layers.Embedding(5, 3).build([2])


@pytest.mark.parametrize("make, words", [
    (lambda: layers.Embedding(5, 3, mask_zero=True), "Embedding does not support __init__ argument "
     "mask_zero. It is included for API consistencywith keras.Embedding."),
    (lambda: layers.Embedding(5, 3, input_length=4), "argument input_length"),
    (lambda: layers.LayerNormalization(beta_constraint="unit_norm"), "argument beta_constraint"),
])
def test_arguments_that_only_keras_has(make, words):
    with pytest.raises(NotImplementedError) as error:
        make()
    assert words in str(error.value)


@pytest.mark.parametrize("dimension", ["input_columns", "input_rows_kernel_columns",
                                       "kernel_rows"])
def test_serial_dense(dimension):
    ours, stock = like(layers.SerialDense(4, 2, dimension, activation="relu"),
                       keras.layers.Dense(4, activation="relu"))
    same(with_gradients(ours), with_gradients(stock))


def test_what_serial_dense_refuses():
    with pytest.raises(ValueError) as error:
        layers.SerialDense(4, 2, "rows")
    assert str(error.value) == (
        "Invalid serialization_dimension=rows, expected one of: 'input_columns', "
        "'input_rows_kernel_columns', 'kernel_rows'.")
    with pytest.raises(ValueError, match="serialization_factor has to be at least 1, but was 0."):
        layers.SerialDense(4, 0, "kernel_rows")(X)
    with pytest.raises(ValueError, match="last dimension of the inputs to `SerialDense` should be"):
        layers.SerialDense(4, 2, "kernel_rows").build([2, None])
    with pytest.raises(TypeError, match="with non-floating point dtype int32"):
        layers.SerialDense(4, 2, "kernel_rows", dtype="int32").build([2, 4])


def test_dropout():
    layer = layers.Dropout(0.5, seed=(1, 2))
    one = layer(X, training=True).numpy()
    np.testing.assert_array_equal(one, layer(X, training=True))
    np.testing.assert_array_equal(layer(X, training=False), X)
    np.testing.assert_allclose(one[one != 0], 2 * X[one != 0])
    assert 0.3 < (one == 0).mean() < 0.7
    # SDK 1.2's arguments.
    other = layers.Dropout(seed=(1, 2), seed_modifier=5)
    assert (other.rate, other.get_config()["seed_modifier"]) == (0.5, 5)
    assert "seed_modifier" not in layer.get_config()
    again = layers.Dropout.from_config(other.get_config())(X, training=True)
    np.testing.assert_array_equal(again, other(X, training=True))
    assert (again.numpy() != one).any()


def test_ctc():
    data = tf.nn.log_softmax(RNG.normal(size=(5, 2, 4)).astype("float32"))
    lengths, labels = tf.constant([5, 4]), tf.constant([[1, 2], [3, 1]])
    loss = layers.CTCLoss()(labels, data, tf.constant([2, 1]), lengths)
    expected = nn_ops.ctc_loss_with_log_probs(labels, data, tf.constant([2, 1]), lengths, 0)
    np.testing.assert_allclose(loss, [np.mean(expected)], rtol=1e-5)
    _, counts, found = layers.CTCInferenceLayer(beam_width=10)(data, lengths)
    paths = layers.CTCPredictionsLayer(beam_width=10)(data, lengths).numpy()
    for path, count, labels_ in zip(paths, counts.numpy()[:, 0], found.numpy()[:, 0]):
        np.testing.assert_array_equal(path[:count], labels_[:count])
        assert not path[count:].any()


def test_numbers_of_eight_bits():
    metadata = tf.constant(f8_ops.create_metadata(f8_ops.Format.F143), tf.uint8)
    x = tf.constant([[1.0, -2.0, 0.5]], tf.float16)
    quarter = layers.ConvertToF8()(x, metadata)
    np.testing.assert_array_equal(layers.ConvertFromF8()(quarter), x)
    dense = layers.Dense(2)
    result = dense(quarter)
    kernel = f8_ops.convert_from_f8((dense.kernel_data, dense.kernel_metadata))
    np.testing.assert_allclose(result, x @ kernel, rtol=1e-2)
    assert [one.name.rpartition("/")[2] for one in dense.weights] == [
        "kernel_data:0", "kernel_metadata:0", "bias:0"]
    assert layers.Dense(2)(tf.ones([2, 3])).shape == (2, 2)
    stock, ours = keras.layers.Dense(2), layers.Dense(2)
    codes = f8_ops.convert_to_f8(x, f8_ops.create_metadata(f8_ops.Format.F143))
    expected, _ = stock(x), ours(codes)
    ours.set_weights(stock.get_weights())
    found = ours(codes)
    assert found.dtype == tf.float16
    np.testing.assert_allclose(found, expected, atol=.3)  # three weights of 4 bits
    assert np.abs(found.numpy() - expected.numpy()).max() > 1e-4  # rounded to eight bits
    with pytest.raises(ValueError, match="`kernel_scale` should be in the range .-32, 31.. The "
                       "passed scale was 40."):
        layers.Dense(2, kernel_scale=40)


def test_effective_transformer():
    lengths, others = np.array([3, 2]), np.array([1, 4])
    source = (np.arange(3) < lengths[:, None]).astype("float32") * RNG.normal(size=(2, 3))
    target = (np.arange(4) < others[:, None]).astype("float32") * RNG.normal(size=(2, 4))
    source, target = source.astype("float32"), target.astype("float32")
    mask = np.array([[True, False], [True, True]])
    layer = layers.EffectiveTransformer(5, 4, num_attention_heads=2, attention_head_size=3,
                                        layer_norm_output=False)
    output, context = layer([source, lengths, target, others, mask])

    def embed(tokens, counts, dense):
        value = tokens[..., None] * dense.kernel.numpy().reshape(1, 1, -1)
        return value.reshape(*tokens.shape, 2, 3) * (
            np.arange(tokens.shape[1]) < counts[:, None])[..., None, None]

    query = embed(source, lengths, layer.query_layer)
    key, value = (embed(target, others, one) for one in (layer.key_layer, layer.value_layer))
    scores = np.exp(np.einsum("bnhd,bmhd->bhnm", query, key))
    scores /= scores.sum(-1, keepdims=True)
    expected = np.einsum("bhnm,bmhd->bnhd", scores, value) * mask[:, None, :, None]
    np.testing.assert_allclose(context, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(output, expected.reshape(2, -1) @ layer.output_layer.kernel,
                               rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs, words", [
    ([(3, 3)], "must be built with either four or five input shapes."),
    ([(3, 3, 1), (3,), (3, 3), (3,)], "from_sequences and to_sequences must be equal rank"),
    ([(3, 3, 8), (3,), (3, 3, 8), (3,)], "from_sequences must have the shape [num_sequences, "),
    ([(4, 3), (4,), (3, 3), (3,)], "must contain an equal number of sequences"),
    ([(3, 3), (4,), (3, 3), (4,)], "equal to the number of sequences provided."),
    ([(3, 3), (3,), (3, 3), (3,), (3, 2)], "q_mask must have shape [num_sequences, num_attention_"),
])
def test_what_the_transformer_refuses(inputs, words):
    with pytest.raises(ValueError) as error:
        layers.EffectiveTransformer(12, 10)([tf.zeros(one) for one in inputs])
    assert words in str(error.value)


def test_layers_that_hand_on():
    for layer in (layers.RecomputationCheckpoint(), layers.AssumeEqualAcrossReplicas()):
        np.testing.assert_array_equal(layer(X), X)
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


MADE = [lambda: layers.AssumeEqualAcrossReplicas(True), lambda: layers.CTCInferenceLayer(1),
        lambda: layers.CTCPredictionsLayer(1), lambda: layers.CTCLoss(1),
        lambda: layers.SerialDense(4, 2, "kernel_rows", "relu"), lambda: layers.Dense(3),
        lambda: layers.Dropout(0.3, seed=(1, 2)), lambda: layers.EffectiveTransformer(4, 2),
        lambda: layers.Embedding(4, 3), lambda: layers.GroupNormalization(4),
        lambda: layers.InstanceNormalization(1), lambda: layers.LayerNormalization([1]),
        lambda: layers.RecomputationCheckpoint(), lambda: layers.ConvertFromF8()]


@pytest.mark.parametrize("make", MADE)
def test_configuration(make):
    layer = make()
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


@pytest.mark.parametrize("suffix", [".keras", ".h5", ""])
def test_saving(tmp_path, suffix):
    model = keras.Sequential([
        keras.Input((6,), 4), layers.Embedding(9, 8), layers.LayerNormalization(),
        layers.GroupNormalization(4, beta_initializer="zeros", gamma_initializer="ones"),
        layers.Dropout(0.5), layers.LSTM(5), layers.SerialDense(4, 2, "kernel_rows")])
    x = RNG.integers(0, 9, (4, 6))
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    loaded = keras.models.load_model(path)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-6)
    if suffix:
        assert [type(one) for one in loaded.layers] == [type(one) for one in model.layers]


def test_layer_replacement():
    from tensorflow.python.ipu.keras.layer_replacement import IPULayerReplacer
    replace = IPULayerReplacer()
    layer = keras.layers.LayerNormalization()
    layer(X)
    layer.set_weights([RNG.normal(size=8), RNG.normal(size=8)])
    made = replace(layer)
    assert type(made) is layers.LayerNormalization
    np.testing.assert_allclose(made(X), layer(X), rtol=1e-4, atol=1e-5)
    for other in (keras.layers.Conv1D(2, 3), keras.layers.Dense(3),
                  keras.layers.GroupNormalization(2)):
        assert replace(layer_instance=other) is other
    assert replace.get_blacklisted_ipu_layer_names() == ["GroupNorm", "InstanceNorm", "SerialDense"]
    assert "LSTM" in replace.get_ipu_layer_names()
    with pytest.raises(RuntimeError, match="Could not substitute Keras Embedding layer for it's"
                                           " IPU counterpart. .* does not support .* mask_zero"):
        replace(keras.layers.Embedding(4, 3, mask_zero=True))
    with pytest.raises(TypeError, match="may only be used with classes derived from keras.Layer"):
        replace(3)


@pytest.mark.parametrize("layer, shape", [
    (keras.layers.Embedding(7, 3), (2, 4)), (keras.layers.Dropout(.5), (2, 4)),
    (keras.layers.LayerNormalization(), (2, 8)), (keras.layers.LSTM(3), (2, 4, 5)),
    (keras.layers.LayerNormalization(axis=[1, 2]), (None, 4, 5)),
    (keras.layers.GRU(3, implementation=1), (2, 4, 5))])
@pytest.mark.parametrize("is_built", [False, True])
def test_layers_that_were_not_called_are_replaced(layer, shape, is_built):
    from tensorflow.python.ipu.keras.layer_replacement import IPULayerReplacer
    layer = type(layer).from_config(layer.get_config())
    if is_built:
        layer.build(shape)
    made = IPULayerReplacer()(layer)
    assert type(made).__module__.startswith("tremula") and len(made.weights) == len(layer.weights)
    for one, other in zip(made.get_weights(), layer.get_weights()):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make, x", [
    (lambda: layers.Dropout(.5), X), (lambda: layers.LayerNormalization(), X),
    (lambda: layers.GroupNormalization(2), X), (lambda: layers.InstanceNormalization(), X),
    (lambda: layers.Embedding(9, 4), np.array([[1, 2], [3, 8]], "int32")),
    (lambda: layers.SerialDense(4, 2, "kernel_rows"), X), (lambda: layers.LSTM(3), X)])
def test_inputs_by_keyword_and_with_a_mask(make, x):
    layer = make()
    layer.build(x.shape)
    np.testing.assert_array_equal(layer(inputs=x, training=False), layer(x, training=False))
    if x is X and not isinstance(layer, layers.LSTM):  # which refuses masks
        masked = keras.Sequential([keras.layers.Masking(), layer])
        np.testing.assert_allclose(masked(x, training=False), layer(x, training=False), rtol=1e-5)


class Noting(keras.layers.Layer):
    """Enqueues what it gets: once in a program, or without asking."""

    def __init__(self, outfeed, asks):
        super().__init__()
        self.outfeed, self.asks = outfeed, asks

    def call(self, x):
        if not self.asks or not self.outfeed.enqueued:
            self.outfeed.enqueue(x)
        return x


@pytest.mark.parametrize("asks", [True, False])
def test_a_layer_that_enqueues(strategy, asks):
    """Where Keras infers shapes nothing is enqueued for the programs."""
    data = RNG.normal(size=(8, 4)).astype("float32")
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with strategy.scope():
        inputs = keras.Input((4,), batch_size=2)
        model = keras.Model(inputs, keras.layers.Dense(1)(Noting(outfeed, asks)(inputs)))
        model.compile("sgd", "mse", steps_per_execution=2)
        for run in (lambda: model.fit(data, data[:, :1], 2, verbose=0, shuffle=False),
                    lambda: model.predict(data, 2, verbose=0),
                    lambda: model.evaluate(data, data[:, :1], 2, verbose=0)):
            run()
            np.testing.assert_array_equal(outfeed.dequeue().numpy().reshape(8, 4), data)
