"""The rows of the table: networks, written over the operations of a backend.

A network is net(b, weight, *inputs): `b` has the operations; weight(shape, deviation) gives the
next weight, the same in every backend. Images are NHWC here; a backend may use another layout.
"""

import dataclasses
import functools
from typing import Callable

import numpy as np


@dataclasses.dataclass
class Row:
    """`rate`: the learning rate of training, where `net` gives the loss. `halves`: Tremula computes
    in float16, its peers in float32. `rest`: seconds without work before each call."""
    name: str
    title: str
    inputs: Callable
    net: Callable
    rate: float = 0.0
    steps: int = 1  # of training in one call, in the peer's own loop if it has one
    halves: bool = False
    rest: float = 0.0


@functools.cache
def _random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@functools.cache
def _labels(count, classes):
    return np.random.default_rng(1).integers(0, classes, count).astype(np.int32)


# ---- Images --------------------------------------------------------------------------------------


def _normed(b, weight, x, channels, training, scale=1.0):
    gain, offset = weight((channels,), 0, scale), weight((channels,), 0, 0.0)
    if training:
        return b.batch_norm(x, gain, offset)
    return b.scale_channels(x, gain, offset)


def _bottleneck(b, weight, x, channels, width, out, stride, groups, training):
    y = b.relu(_normed(b, weight, b.conv(x, weight.kernel(1, channels, width), 1), width, training))
    y = b.conv(y, weight.kernel(3, width // groups, width), stride, groups)
    y = b.relu(_normed(b, weight, y, width, training))
    y = _normed(b, weight, b.conv(y, weight.kernel(1, width, out), 1), out, training, 0.2)
    if stride != 1 or channels != out:
        x = b.conv(x, weight.kernel(1, channels, out), stride)
        x = _normed(b, weight, x, out, training)
    return b.relu(x + y)


def residual_network(blocks, groups, width, training):
    def net(b, weight, images, labels=None):
        x = b.conv(b.image(images), weight.kernel(7, 3, 64), 2)
        x = b.max_pool(b.relu(_normed(b, weight, x, 64, training)), 3, 2)
        channels = 64
        for stage, count in enumerate(blocks):
            inner, out = width << stage, 256 << stage
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                x = _bottleneck(b, weight, x, channels, inner, out, stride, groups, training)
                channels = out
        x = b.mean_of_image(x)
        x = b.matmul(x, weight((channels, 1000), channels ** -.5))
        return b.softmax(x) if labels is None else b.cross_entropy(x, labels)
    return net


# ---- Transformers --------------------------------------------------------------------------------


def _attention(b, q, k, v, depth):
    """Of [batch, heads, tokens, depth]; by the peer's own function, if it has one."""
    if hasattr(b, "attention"):
        return b.attention(q, k, v)
    scores = b.matmul(q, b.transpose(k, (0, 1, 3, 2))) * depth ** -.5
    return b.matmul(b.softmax(scores), v)


def _block(b, weight, x, batch, length, size, heads):
    def dense(y, wide, narrow):
        return b.matmul(y, weight((wide, narrow), wide ** -.5)) + weight((narrow,), 0, 0.0)

    def norm(y):
        return b.layer_norm(y, weight((size,), 0, 1.0), weight((size,), 0, 0.0))

    def split(y):
        return b.transpose(b.reshape(y, (batch, length, heads, size // heads)), (0, 2, 1, 3))

    q, k, v = (split(dense(x, size, size)) for _ in range(3))
    y = b.transpose(_attention(b, q, k, v, size // heads), (0, 2, 1, 3))
    x = norm(x + dense(b.reshape(y, (batch, length, size)), size, size))
    return norm(x + dense(b.gelu(dense(x, size, 4 * size)), 4 * size, size))


def transformer(layers, batch, length, size, heads, vocabulary, training=False):
    def net(b, weight, words, labels=None):
        x = b.take(weight((vocabulary, size), 0.02), words) + weight((length, size), 0.02)
        for _ in range(layers):
            x = _block(b, weight, x, batch, length, size, heads)
        if not training:
            return x
        x = b.matmul(b.reshape(x, (batch * length, size)), weight((size, 2), 0.02))
        return b.cross_entropy(x, labels)
    return net


def vision_transformer(layers, batch, patch, size, heads):
    side = 224 // patch

    def net(b, weight, images):
        x = b.reshape(images, (batch, side, patch, side, patch, 3))
        x = b.reshape(b.transpose(x, (0, 1, 3, 2, 4, 5)), (batch, side * side, patch * patch * 3))
        x = b.matmul(x, weight((patch * patch * 3, size), 0.02)) + weight((side * side, size), .02)
        for _ in range(layers):
            x = _block(b, weight, x, batch, side * side, size, heads)
        return b.matmul(b.mean(x, 1), weight((size, 1000), 0.02))
    return net


# ---- Small networks ------------------------------------------------------------------------------


def lstm(size, training):
    def net(b, weight, xs, labels=None):
        h = b.lstm(xs, weight((size, 4 * size), size ** -.5), weight((size, 4 * size), size ** -.5))
        return b.cross_entropy(b.matmul(h, weight((size, 10), 0.1)), labels) if training else h
    return net


def dense_network(sizes, training):
    def net(b, weight, x, labels=None):
        for i, (wide, narrow) in enumerate(zip(sizes, sizes[1:])):
            x = b.matmul(x, weight((wide, narrow), (2 / wide) ** .5)) + weight((narrow,), 0, 0.0)
            x = b.relu(x) if i + 2 < len(sizes) else x
        return b.cross_entropy(x, labels) if training else x
    return net


def _attention_alone(b, weight, q, k, v):
    del weight
    return _attention(b, q, k, v, 64)


_MLP = (784, 512, 512, 10)
_POLICY = (64, 256, 256, 18)
ROWS = [
    Row("resnext", "ResNeXt-101 inference, batch 4", lambda: [_random(4, 224, 224, 3)],
        residual_network((3, 4, 23, 3), 32, 128, False)),
    Row("resnext-f16", "the same, Tremula in float16", lambda: [_random(4, 224, 224, 3)],
        residual_network((3, 4, 23, 3), 32, 128, False), halves=True),
    Row("resnet", "ResNet-50 inference, batch 8", lambda: [_random(8, 224, 224, 3)],
        residual_network((3, 4, 6, 3), 1, 64, False)),
    Row("resnet-training", "ResNet-50 training, batch 8",
        lambda: [_random(8, 224, 224, 3), _labels(8, 1000)],
        residual_network((3, 4, 6, 3), 1, 64, True), 0.01),
    Row("bert", "BERT-base, 8 x 128", lambda: [_labels((8, 128), 30000)],
        transformer(12, 8, 128, 768, 12, 30000)),
    Row("bert-f16", "the same, Tremula in float16", lambda: [_labels((8, 128), 30000)],
        transformer(12, 8, 128, 768, 12, 30000), halves=True),
    Row("bert-training", "BERT-base training, 2 x 128",
        lambda: [_labels((2, 128), 30000), _labels(256, 2)],
        transformer(12, 2, 128, 768, 12, 30000, True), 0.001),
    Row("vit", "ViT-base inference, batch 4", lambda: [_random(4, 224, 224, 3)],
        vision_transformer(12, 4, 16, 768, 12)),
    Row("lstm", "LSTM 256, T 100, batch 32", lambda: [_random(100, 32, 256)], lstm(256, False)),
    Row("lstm-training", "LSTM training", lambda: [_random(100, 32, 256), _labels(32, 10)],
        lstm(256, True), 0.01),
    Row("mlp", "MLP 784-512-512-10 training step, batch 32",
        lambda: [_random(32, 784), _labels(32, 10)], dense_network(_MLP, True), 0.01),
    Row("mlp-loop", "100 such steps in a device loop",
        lambda: [_random(32, 784), _labels(32, 10)], dense_network(_MLP, True), 0.001, 100),
    Row("policy", "a policy's network 64-256-256-18, batch 1", lambda: [_random(1, 64)],
        dense_network(_POLICY, False)),
    Row("policy-training", "the same, a training step of 256",
        lambda: [_random(256, 64), _labels(256, 18)], dense_network(_POLICY, True), 0.01),
    Row("policy-rest", "the same step, after a rest of 10 ms",
        lambda: [_random(256, 64), _labels(256, 18)], dense_network(_POLICY, True), 0.01,
        rest=0.01),
    Row("token", "a network 1024-2816-1024-2816-1024, batch 1", lambda: [_random(1, 1024)],
        dense_network((1024, 2816, 1024, 2816, 1024), False)),
    Row("token-f16", "the same, Tremula in float16", lambda: [_random(1, 1024)],
        dense_network((1024, 2816, 1024, 2816, 1024), False), halves=True),
    Row("token-rest", "the token's network, after a rest of 10 ms", lambda: [_random(1, 1024)],
        dense_network((1024, 2816, 1024, 2816, 1024), False), rest=0.01),
    Row("attention", "attention of 2048 tokens, 8 heads of 64",
        lambda: [_random(1, 8, 2048, 64, seed=i) for i in range(3)], _attention_alone),
    Row("gelu", "gelu(x a + b) + tanh(x), 16 M floats", lambda: [_random(4096, 4096)],
        lambda b, weight, x: b.gelu(x * weight((4096,), 1.0) + weight((4096,), 1.0)) + b.tanh(x)),
    Row("softmax", "softmax 4096 x 4096", lambda: [_random(4096, 4096)],
        lambda b, weight, x: b.softmax(x)),
    Row("layer-norm", "layer norm 8192 x 1024", lambda: [_random(8192, 1024)],
        lambda b, weight, x: b.layer_norm(x, weight((1024,), 0, 1.0), weight((1024,), 0, 0.0))),
    Row("transpose", "transpose 4096 x 4096", lambda: [_random(4096, 4096)],
        lambda b, weight, x: b.transpose(x, (1, 0))),
    Row("reductions", "column sums and row maxima, 8192 x 4096", lambda: [_random(8192, 4096)],
        lambda b, weight, x: (b.sum(x, 0), b.max(x, 1))),
    Row("matmul", "matmul 2048^3", lambda: [_random(2048, 2048), _random(2048, 2048, seed=1)],
        lambda b, weight, x, y: b.matmul(x, y)),
    Row("cumsum", "cumulative sum 2048 x 2048", lambda: [_random(2048, 2048)],
        lambda b, weight, x: b.cumsum(x, 1)),
    Row("sort", "sort of a million floats", lambda: [_random(1 << 20)],
        lambda b, weight, x: b.sort(x)),
    Row("embedding", "embedding look-up and update, 100 000 x 128, 4 096 indices",
        lambda: [_labels(4096, 100000)],
        lambda b, weight, i: b.sum(b.sum(b.square(b.take(weight((100000, 128), 0.02), i)), 1), 0),
        0.01),
    Row("add", "a trivial add", lambda: [_random(16), _random(16, seed=1)],
        lambda b, weight, x, y: x + y),
]


class Weights:
    """Hands out weights: in the first pass it makes them, by their number; later it gives these."""

    def __init__(self, make, given=None):
        self._make, self._given, self.values = make, given, []

    def __call__(self, shape, deviation, mean=0.0, kind="plain"):
        if self._given is not None:
            self.values.append(None)
            return self._given[len(self.values) - 1]
        value = np.full(shape, mean, np.float32)
        if deviation:
            random = np.random.default_rng(100 + len(self.values))
            value = (deviation * random.standard_normal(shape)).astype(np.float32)
        self.values.append(self._make(value, kind))
        return self.values[-1]

    def kernel(self, size, wide, narrow):
        """The weights of a convolution, HWIO."""
        return self((size, size, wide, narrow), (2 / (size * size * wide)) ** .5, kind="kernel")
