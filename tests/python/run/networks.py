"""Networks as TensorFlow 1 programs, with weights that are the same wherever they are built."""

import numpy as np
import tensorflow.compat.v1 as tf


class Weights:
    """Makes the variables of a network, and knows what they are to be."""

    def __init__(self, dtype=tf.float32, seed=1):
        self.dtype = dtype
        self._random = np.random.default_rng(seed)
        self._values = []

    def _add(self, name, value, trainable=True):
        variable = tf.get_variable(name, value.shape, self.dtype, tf.zeros_initializer(),
                                   use_resource=True, trainable=trainable)
        self._values.append((variable, value))
        return variable

    def kernel(self, *shape):
        scale = (2. / np.prod(shape[:-1])) ** .5
        return self._add("kernel", self._random.standard_normal(shape) * scale)

    def vector(self, name, size, centre, spread, trainable=True):
        return self._add(name, centre + spread * self._random.standard_normal(size), trainable)

    def load(self, session, rounded_to):
        """Sets the variables, to values that `rounded_to` has too."""
        # In one run: each would prune the graph anew.
        others = [one for one in tf.global_variables()
                  if not any(one is variable for variable, _ in self._values)]
        feeds = {variable.initializer.inputs[1]:
                 value.astype(rounded_to.as_numpy_dtype).astype(self.dtype.as_numpy_dtype)
                 for variable, value in self._values}
        session.run([variable.initializer for variable, _ in self._values]
                    + [one.initializer for one in others], feeds)


def convolution(weights, x, size, outputs, stride=1, groups=1, bias=False):
    inputs = int(x.shape[-1]) // groups
    x = tf.nn.conv2d(x, weights.kernel(size, size, inputs, outputs), stride, "SAME")
    return x + weights.vector("bias", outputs, 0., .1) if bias else x


def fixed_norm(weights, x, scale=1.):
    """Batch normalisation with the statistics of an earlier training."""
    size = int(x.shape[-1])
    gamma, beta = weights.vector("gamma", size, scale, .1), weights.vector("beta", size, 0., .1)
    mean = weights.vector("mean", size, 0., .1, trainable=False)
    variance = weights.vector("variance", size, 1., .1, trainable=False)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def batch_norm(weights, x, scale=1.):
    """Batch normalisation in training."""
    size = int(x.shape[-1])
    gamma, beta = weights.vector("gamma", size, scale, 0.), weights.vector("beta", size, 0., 0.)
    return tf.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3)[0]


def residual_network(weights, x, classes, blocks, norm, groups, width, bias):
    """ResNet (one group) and ResNeXt with bottlenecks: logits."""
    with tf.variable_scope("input"):
        x = tf.nn.relu(norm(weights, convolution(weights, x, 7, 64, 2, bias=bias)))
    x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        inner, outer = width << stage, 256 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = x
            for part, (size, outputs, step, split) in enumerate(
                    [(1, inner, 1, 1), (3, inner, stride, groups), (1, outer, 1, 1)]):
                with tf.variable_scope(f"stage{stage}/block{block}/part{part}"):
                    y = norm(weights, convolution(weights, y, size, outputs, step, split, bias),
                             1. if part < 2 else .2)
                    y = tf.nn.relu(y) if part < 2 else y
            if not block:
                with tf.variable_scope(f"stage{stage}/shortcut"):
                    x = norm(weights, convolution(weights, x, 1, outer, stride, bias=bias))
            x = tf.nn.relu(x + y)
    with tf.variable_scope("output"):
        x = tf.reduce_mean(x, [1, 2])
        return x @ weights.kernel(int(x.shape[-1]), classes) + weights.vector(
            "bias", classes, 0., .1)


RESNEXT_50, RESNEXT_101 = (3, 4, 6, 3), (3, 4, 23, 3)  # blocks of the stages


def resnext(weights, x, blocks, classes=1000):
    return residual_network(weights, x, classes, blocks, fixed_norm, 32, 128, True)


def resnet50(weights, x, classes=10):
    return residual_network(weights, x, classes, (3, 4, 6, 3), batch_norm, 1, 64, False)
