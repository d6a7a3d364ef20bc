"""BERT in small, as a Keras model: encoders whose calls are outlined functions, attention with a
mask, stochastic rounding and LAMB, against a loop on the CPU.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.keras import optimizers

keras = tf.keras
layers = keras.layers
WORDS, LENGTH, WIDTH, HEADS, STEPS, RATE = 20, 6, 8, 2, 4, 0.02
RANDOM = np.random.RandomState(2)
IDS = RANDOM.randint(0, WORDS, [2 * STEPS, LENGTH]).astype(np.int32)
LABELS = RANDOM.randint(0, WORDS, [2 * STEPS, LENGTH]).astype(np.int32)


class Encoder(layers.Layer):
    """Attention and two dense layers, each with its residual and norm."""

    def __init__(self, outlined, **options):
        super().__init__(**options)
        self.outlined = outlined
        dense = {"use_bias": False, "dtype": self.dtype}
        self.maps = [layers.Dense(WIDTH, **dense) for _ in range(4)]
        self.up, self.down = layers.Dense(2 * WIDTH, **dense), layers.Dense(WIDTH, **dense)
        self.norms = [layers.LayerNormalization(epsilon=1e-3, dtype=self.dtype) for _ in range(2)]

    def build(self, shape):
        for one in (*self.maps, self.up, *self.norms):
            one.build(shape)
        self.down.build([*shape[:-1], 2 * WIDTH])
        super().build(shape)

    def encode(self, x, bias):
        def heads(dense):
            return tf.transpose(tf.reshape(dense(x), [-1, LENGTH, HEADS, WIDTH // HEADS]),
                                [0, 2, 1, 3])

        scores = tf.matmul(heads(self.maps[0]), heads(self.maps[1]), transpose_b=True) * 0.5 + bias
        y = tf.matmul(tf.nn.softmax(scores), heads(self.maps[2]))
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [-1, LENGTH, WIDTH])
        x = self.norms[0](x + self.maps[3](y))
        return self.norms[1](x + self.down(tf.nn.relu(self.up(x))))

    def call(self, x, bias):
        encode = ipu.outlined_function(self.encode) if self.outlined else self.encode
        return encode(x, bias)


def bert(dtype, outlined):
    ids = keras.Input([LENGTH], 2, dtype=tf.int32)
    bias = tf.cast(tf.equal(ids, 0), dtype)[:, None, None, :] * -1000
    x = layers.Embedding(WORDS, WIDTH, dtype=dtype)(ids)
    for number in range(3):
        x = Encoder(outlined, dtype=dtype, name=f"encoder_{number}")(x, bias)
    return keras.Model(ids, layers.Dense(WORDS, dtype=tf.float32)(tf.cast(x, tf.float32)))


def start():
    model = bert(tf.float32, False)
    random = np.random.RandomState(3)
    return [random.randn(*one.shape).astype(np.float32) * 0.3 + (len(one.shape) == 1)
            for one in model.get_weights()]


def loss_of(labels, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


@pytest.fixture(scope="module")
def plain():
    """The loss of each step and the weights after all, of a loop with LAMB in NumPy."""
    model = bert(tf.float32, False)
    model.set_weights(start())
    moments = [(np.zeros(one.shape), np.zeros(one.shape)) for one in model.trainable_variables]
    losses = []
    for step in range(STEPS):
        part = slice(2 * step, 2 * step + 2)
        with tf.GradientTape() as tape:
            loss = loss_of(LABELS[part], model(IDS[part]))
        losses.append(float(loss))
        gradients = tape.gradient(loss, model.trainable_variables)
        for k, (gradient, one) in enumerate(zip(gradients, model.trainable_variables)):
            gradient, value = tf.convert_to_tensor(gradient).numpy(), one.numpy()
            m, v = moments[k]
            m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
            moments[k] = m, v
            change = (m / (1 - 0.9**(step + 1)) / (np.sqrt(v / (1 - 0.99**(step + 1))) + 1e-3)
                      + 0.01 * value)
            ratio = np.linalg.norm(value) / np.linalg.norm(change)
            one.assign(value - RATE * ratio * change)
    return losses, model.get_weights()


@pytest.mark.parametrize("dtype, tolerance", [(tf.float32, 1e-4), (tf.float16, 3e-2)])
def test_fit_equals_a_loop_on_the_cpu(plain, dtype, tolerance, capfd):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.esr = ipu.config.StochasticRoundingBehaviour.ON
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = bert(dtype, True)
        model.set_weights(start())
        model.compile(optimizers.LAMBIpuOptimizer(
            RATE, beta_2=0.99, epsilon=1e-3, weight_decay_rate=0.01, m_dtype=tf.float32,
            v_dtype=tf.float32), loss_of, steps_per_execution=STEPS)
        data = tf.data.Dataset.from_tensor_slices((IDS, LABELS)).batch(2, drop_remainder=True)
        found = model.fit(data, verbose=0).history["loss"]
    assert "not planned for an IPU" not in capfd.readouterr().err
    np.testing.assert_allclose(found, np.mean(plain[0]), rtol=tolerance)
    for expected, value in zip(plain[1], model.get_weights()):
        np.testing.assert_allclose(value, expected, atol=tolerance)
