"""The networks, each as a Case that every peer builds from the same code.

The caller gives the weights, so that one peer can keep them in variables and another can pass them
as arguments. The case determines their values.
"""

import dataclasses
from typing import Callable

import numpy as np


@dataclasses.dataclass
class WeightSpec:
    """A weight: normally distributed with this deviation around this mean."""
    shape: tuple
    dtype: str
    mean: float
    deviation: float

    def value(self, index):
        if not self.deviation:
            return np.full(self.shape, self.mean, self.dtype)
        rng = np.random.default_rng(index)
        normal = rng.standard_normal(self.shape, np.float32)
        return (self.mean + self.deviation * normal).astype(self.dtype)


@dataclasses.dataclass
class Case:
    """compute(weights, *inputs) gives the result. With a learning rate, the result is a loss, and a
    step includes the update of the weights by their gradients."""
    name: str
    title: str
    inputs: Callable  # () -> list of arrays
    compute: Callable
    rate: float = 0.0
    core: bool = False  # whether the C core alone is measured, too

    def weight_specs(self):
        """The weights, found by building the network once as a graph."""
        import tensorflow as tf
        with tf.Graph().as_default():
            weights = Weights(None)
            self.compute(weights, *[tf.constant(one) for one in self.inputs()])
        return weights.specs


class Weights:
    """Hands out the given tensors in order; without any, placeholders, whose shapes it notes."""

    def __init__(self, given):
        self._given = None if given is None else iter(given)
        self.specs = []

    def get(self, shape, dtype, mean=0.0, deviation=0.0):
        import tensorflow as tf
        if self._given is not None:
            return next(self._given)
        self.specs.append(WeightSpec(tuple(shape), dtype, mean, deviation))
        return tf.compat.v1.placeholder(dtype, shape)


class _Layers:
    """Layers over NHWC images."""

    def __init__(self, weights, dtype, training):
        self._weights, self._dtype, self._training = weights, dtype, training

    def convolution(self, x, size, channels, stride, groups=1):
        import tensorflow as tf
        shape = [size, size, x.shape[-1] // groups, channels]
        kernel = self._weights.get(shape, self._dtype, deviation=(2 / np.prod(shape[:3])) ** .5)
        return tf.nn.conv2d(x, kernel, stride, "SAME")

    def norm(self, x, scale=1.0):
        """Batch normalisation; in training by the batch's own statistics."""
        import tensorflow as tf
        shape = [x.shape[-1]]
        scale = self._weights.get(shape, "float32", mean=scale)
        offset = self._weights.get(shape, "float32")
        norm = tf.compat.v1.nn.fused_batch_norm
        if self._training:
            return norm(x, scale, offset, epsilon=1e-5, is_training=True)[0]
        mean = self._weights.get(shape, "float32")
        variance = self._weights.get(shape, "float32", mean=1.0)
        return norm(x, scale, offset, mean, variance, epsilon=1e-5, is_training=False)[0]

    def bias(self, x):
        return x + self._weights.get([x.shape[-1]], self._dtype)

    def dense(self, x, units):
        weights = self._weights.get([x.shape[-1], units], self._dtype,
                                    deviation=int(x.shape[-1]) ** -.5)
        return self.bias(x @ weights)

    def bottlenecks(self, x, inner, outer, count, stride, groups=1):
        """Residual blocks of 1x1, 3x3 (in groups) and 1x1. The first one's stride is that of its
        first convolution."""
        import tensorflow as tf
        for block in range(count):
            step = stride if block == 0 else 1
            y = tf.nn.relu(self.norm(self.convolution(x, 1, inner, step)))
            y = tf.nn.relu(self.norm(self.convolution(y, 3, inner, 1, groups)))
            # Small numbers, so that the sum over all blocks stays within float16.
            y = self.norm(self.convolution(y, 1, outer, 1), scale=.2)
            if block == 0:
                x = self.norm(self.convolution(x, 1, outer, step))
            x = tf.nn.relu(x + y)
        return x


def _residual(layers, images, widths, counts, groups=1):
    import tensorflow as tf
    x = layers.bias(layers.convolution(images, 7, 64, 2))
    x = tf.nn.max_pool2d(tf.nn.relu(layers.norm(x)), 3, 2, "SAME")
    for i, ((inner, outer), count) in enumerate(zip(widths, counts)):
        x = layers.bottlenecks(x, inner, outer, count, 2 if i else 1, groups)
    return layers.dense(tf.reduce_mean(x, [1, 2]), 1000)


def _loss(labels, logits):
    import tensorflow as tf
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def _random(*shape, dtype="float32", seed=1):
    return np.random.default_rng(seed).random(shape, np.float32).astype(dtype)


def _labels(count, classes):
    return np.random.default_rng(2).integers(0, classes, count).astype(np.int32)


# ---- The cases -----------------------------------------------------------------------------------

def _resnext(dtype, batch=4, side=224):
    """The network of examples/resnext.py: ResNeXt-101 with 32 groups of 4."""
    def compute(weights, images):
        return _residual(_Layers(weights, dtype, training=False), images,
                         [(128, 256), (256, 512), (512, 1024), (1024, 2048)], [3, 4, 23, 3], 32)
    short = {"float32": "f32", "float16": "f16"}[dtype]
    return Case(f"resnext101-{short}", f"ResNeXt-101, {dtype}, {batch}x{side}x{side}x4",
                lambda: [_random(batch, side, side, 4, dtype=dtype)], compute, core=True)


def _resnet50(batch=8, side=224):
    def compute(weights, images, labels):
        logits = _residual(_Layers(weights, "float32", training=True), images,
                           [(64, 256), (128, 512), (256, 1024), (512, 2048)], [3, 4, 6, 3])
        return _loss(labels, logits)
    return Case("resnet50-train", f"ResNet-50 training step, float32, batch {batch}",
                lambda: [_random(batch, side, side, 3), _labels(batch, 1000)], compute, rate=.001,
                core=True)


def _mlp(*units, batch=32):
    def compute(weights, x, labels):
        return _mlp_loss(weights, x, labels, units)
    sizes = "-".join(str(one) for one in (784, *units))
    return Case("mlp-train" if units == (256, 10) else f"mlp-{sizes}",
                f"{sizes} training step, float32, batch {batch}",
                lambda: [_random(batch, 784), _labels(batch, 10)], compute, rate=.01, core=True)


def _mlp_loss(weights, x, labels, units):
    import tensorflow as tf
    layers = _Layers(weights, "float32", training=True)
    for count in units[:-1]:
        x = tf.nn.relu(layers.dense(x, count))
    return _loss(labels, layers.dense(x, units[-1]))


def _loop(steps=1000, batch=32, units=(512, 512, 10)):
    """Training in a loop on the device; the result is the last step's loss."""
    def compute(weights, x, labels):
        import tensorflow as tf
        sizes = [784, *units]
        first = []
        for inner, outer in zip(sizes, sizes[1:]):
            first += [weights.get([inner, outer], "float32", deviation=inner ** -.5),
                      weights.get([outer], "float32")]

        def body(step, _, *given):
            loss = _mlp_loss(Weights(given), x, labels, units)
            gradients = tf.gradients(loss, given)
            return (step + 1, loss, *[weight - .01 * gradient
                                      for weight, gradient in zip(given, gradients)])

        return tf.while_loop(lambda step, *_: step < steps, body, (0, 0., *first))[1]
    return Case("mlp-loop", f"{steps} steps of 784-512-512-10 in a loop, float32, batch {batch}",
                lambda: [_random(batch, 784), _labels(batch, 10)], compute, core=True)


def _last_hidden(weights, x, units, **loop):
    """The last hidden values of an LSTM, after all steps of x: [steps, batch, inputs]."""
    import tensorflow as tf
    kernel, recurrent = (weights.get([units, 4 * units], "float32", deviation=units ** -.5)
                         for _ in range(2))
    bias = weights.get([4 * units], "float32")

    def body(step, hidden, cell):
        gates = tf.gather(x, step) @ kernel + hidden @ recurrent + bias
        enters, forgets, new, leaves = tf.split(gates, 4, axis=-1)
        cell = tf.sigmoid(forgets) * cell + tf.sigmoid(enters) * tf.tanh(new)
        return step + 1, tf.sigmoid(leaves) * tf.tanh(cell), cell

    steps, batch = x.shape[:2]
    zeros = tf.zeros([batch, units])
    return tf.while_loop(lambda step, *_: step < steps, body, (0, zeros, zeros), **loop)[1]


def _lstm(steps=100, batch=32, units=256):
    def compute(weights, x):
        return _last_hidden(weights, x, units)
    return Case("lstm", f"LSTM of {units}, {steps} steps, batch {batch}, float32",
                lambda: [_random(steps, batch, units)], compute, core=True)


def _lstm_training(steps=100, batch=32, units=256):
    """The loss of training: the sum of the squares of the last hidden values."""
    def compute(weights, x):
        import tensorflow as tf
        hidden = _last_hidden(weights, x, units, maximum_iterations=steps)
        return tf.reduce_mean(hidden * hidden)
    return Case("lstm-train", f"LSTM of {units}, {steps} steps, batch {batch}, training step",
                lambda: [_random(steps, batch, units)], compute, rate=.01, core=True)


def _layer_normalised(x, scale, offset):
    import tensorflow as tf
    distance = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(distance * distance, -1, keepdims=True)
    return distance * tf.math.rsqrt(variance + 1e-12) * scale + offset


def _bert(layers=2, batch=8, length=128, hidden=768, heads=12):
    """Layers of BERT-base without their embeddings."""
    def compute(weights, x):
        import tensorflow as tf
        build = _Layers(weights, "float32", training=False)

        def norm(x):
            return _layer_normalised(x, weights.get([hidden], "float32", mean=1.),
                                     weights.get([hidden], "float32"))

        def split(x):
            return tf.transpose(tf.reshape(x, [batch, length, heads, -1]), [0, 2, 1, 3])

        x = tf.reshape(x, [batch * length, hidden])
        for _ in range(layers):
            query, key, value = (split(build.dense(x, hidden)) for _ in range(3))
            scores = tf.matmul(query, key, transpose_b=True) * (hidden // heads) ** -.5
            mixed = tf.transpose(tf.nn.softmax(scores) @ value, [0, 2, 1, 3])
            x = norm(build.dense(tf.reshape(mixed, x.shape), hidden) + x)
            x = norm(build.dense(tf.nn.gelu(build.dense(x, 4 * hidden)), hidden) + x)
        return x
    return Case("bert", f"{layers} layers of BERT-base, float32, {batch} x {length}",
                lambda: [_random(batch, length, hidden)], compute, core=True)


def _softmax():
    def compute(_, x):
        import tensorflow as tf
        return tf.nn.softmax(x)
    return Case("softmax", "softmax of the rows of 4096 x 4096",
                lambda: [_random(4096, 4096)], compute, core=True)


def _layer_norm():
    return Case("layer-norm", "layer norm of the rows of 8192 x 1024",
                lambda: [_random(8192, 1024), _random(1024, seed=3), _random(1024, seed=4)],
                lambda _, *values: _layer_normalised(*values), core=True)


def _reduction():
    def compute(_, x):
        import tensorflow as tf
        return tf.concat([tf.reduce_sum(x, 0), tf.reduce_max(x, 1)], 0)
    return Case("reduction", "column sums and row maxima of 8192 x 4096",
                lambda: [_random(8192, 4096)], compute, core=True)


def _elementwise(count=1 << 24):
    def compute(_, x, a, b):
        import tensorflow as tf
        return tf.nn.gelu(x * a + b) + tf.tanh(x)
    return Case("elementwise", f"gelu(x a + b) + tanh(x), {count >> 20} M floats",
                lambda: [_random(count), np.float32(1.5), np.float32(-.5)], compute, core=True)


def _cumulative():
    """Along the rows, because along the columns XLA on a CPU takes half a minute."""
    def compute(_, x):
        import tensorflow as tf
        return tf.cumsum(x, axis=1)
    return Case("cumsum", "cumulative sums of the rows of 2048 x 2048",
                lambda: [_random(2048, 2048)], compute, core=True)


def _add():
    return Case("add", "two floats plus two floats",
                lambda: [np.array([1., 1.], np.float32), np.array([0., 1.], np.float32)],
                lambda weights, x, y: x + y, core=True)


def cases():
    return [_add(), _mlp(256, 10), _mlp(512, 512, 10), _loop(), _lstm(),
            _lstm_training(), _bert(), _elementwise(), _softmax(), _layer_norm(), _reduction(),
            _cumulative(), _resnet50(), _resnext("float32"), _resnext("float16")]
