"""What a program writes by partials, options, parameters, bases and other functions."""
import functools
import random
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, mixed_precision

mixed_precision.set_global_policy("mixed_float16")
EPSILON = 1e-9
SMALL = {"batch_size": 8}
WHOLE = dict(batch_size=8)
WHOLE["drop_remainder"] = True
CHANGED = {"batch_size": 8}
CHANGED.update(drop_remainder=True)
seen = []


def batched(dataset, size, drop=False, **more):
    return dataset.batch(size, drop_remainder=drop, **more)  #! drop-remainder


def either(dataset, size, drop=False):
    return dataset.batch(size, drop_remainder=drop)


def tokens(length=None):
    return tf.keras.Input(shape=[length], dtype="int32")  #! unknown-shape


inputs = tokens()
data = tf.data.Dataset.from_tensor_slices(np.zeros([64, 4], np.float32)).shuffle(64)
by_option = [data.batch(**SMALL), data.batch(**WHOLE), data.batch(**CHANGED)]  #! drop-remainder
by_function = batched(data, 8, num_parallel_calls=2), either(data, 8, True), either(data, 8)
batch = functools.partial(data.batch, 8)  #! drop-remainder
by_partial = batch()
padded = data.padded_batch(8, padded_shapes=[None], drop_remainder=True)  #! unknown-shape


class Wide:
    kind = "float64"
    calls = 0


class Step:
    def train_step(self, batch):  #! own-train-step
        loss = tf.reduce_mean(self(batch)) * 2.0
        self.losses_so_far.append(loss)  #! python-side-effect
        return {"loss": loss}


class Scale(layers.Layer, Wide):
    def build(self, shape):
        self.gain = self.add_weight(name="gain", shape=(4,), dtype=self.kind)  #! float64

    def call(self, x):
        return x * tf.cast(self.gain, x.dtype)


class Norm(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words = layers.StringLookup(vocabulary=["a", "b"])

    def call(self, x):
        mean = tf.reduce_mean(x, -1, keepdims=True)
        rare = tf.random.normal([4], seed=random.randint(1, 9))
        if random.random() < 0.5:  #! python-side-effect
            rare = tf.cast(self.words(["a"]), tf.float16)  #! unsupported-op
        return (x - mean) * tf.math.rsqrt(tf.square(x - mean) + EPSILON) + rare  #! half-epsilon


class Model(tf.keras.Model, Step):
    def __init__(self):
        super().__init__()
        self.losses_so_far = []
        self.first, self.second = Scale(), Norm()

    def call(self, x):
        return self.second(self.first(x))


class Played:
    step = 0

    def __init__(self):
        draw = np.random.RandomState(0)
        self.place = tf.Variable(draw.rand(8))  #! float64
        self.speed = tf.Variable(draw.rand(8).astype(np.float32))
        fresh = np.random.default_rng(0)
        self.mass = tf.Variable(fresh.random(8, np.float32))

    @tf.function
    def play(self, x):
        if tf.strings.length(tf.io.read_file("switch")) > 0:  #! unsupported-op unsupported-op
            x = -x
        self.step += 1  #! python-side-effect
        seen.append(x.shape)
        loss = mean_square(x)
        print(f"the loss is {loss}")  #! python-side-effect
        _, x = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a, a], 0)),
                             [0, x], [tf.TensorShape([]), tf.TensorShape([None])])  #! unknown-shape
        return loss


def mean_square(x):
    return tf.reduce_mean(x * x)


played = Played()


def main(buffer):
    for number in range(90):
        buffer.append(np.random.rand(8).astype(np.float32))
        if len(buffer) >= 8:
            loss = played.play(tf.constant(buffer[number]))
            print(loss.numpy())  #! host-round-trip
        if number % 30 == 0:
            print(loss.numpy())
