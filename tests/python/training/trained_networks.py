"""Networks that are trained: weights made by numpy, steps as functions of tf.Variables."""

import numpy as np
import tensorflow as tf


class Variables:
    """Makes variables in order, the same for the same seed."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.all = []

    def _add(self, value, dtype=np.float32):
        self.all.append(tf.Variable(np.asarray(value, dtype)))
        return self.all[-1]

    def weights(self, *shape, gain=2.0):
        fan_in = np.prod(shape[:-1])
        return self._add(self._rng.standard_normal(shape) * np.sqrt(gain / fan_in))

    def zeros(self, *shape):
        return self._add(np.zeros(shape))

    def ones(self, *shape):
        return self._add(np.ones(shape))


class Network:
    """`trained` are the variables that have gradients; step(x, y) is the loss before an update."""

    def __init__(self, optimiser, rate, dtype=tf.float32):
        self.dtype, self._optimiser, self._rate = dtype, optimiser, rate
        self.trained = []
        self.variables = None

    def _slots(self, store):
        self.variables = store
        number = {"momentum": 1, "adam": 2}[self._optimiser]
        self._state = [[store.zeros(*v.shape) for v in self.trained] for _ in range(number)]
        if self._optimiser == "adam":
            self._powers = [store.ones(), store.ones()]

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(x, y)
        gradients = tape.gradient(loss, self.trained)
        if self._optimiser == "momentum":
            for variable, momentum, gradient in zip(self.trained, self._state[0], gradients):
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle, accum=momentum.handle, lr=self._rate, grad=gradient,
                    momentum=.9)
        else:
            powers = [self._powers[0] * .9, self._powers[1] * .999]
            for variable, m, v, gradient in zip(self.trained, *self._state, gradients):
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle, m=m.handle, v=v.handle, beta1_power=powers[0],
                    beta2_power=powers[1], lr=self._rate, beta1=.9, beta2=.999, epsilon=1e-3,
                    grad=gradient)
            for kept, power in zip(self._powers, powers):
                kept.assign(power)
        return loss


class ResNet50(Network):
    """ResNet-50 v1 with batch normalisation in training, moving averages included."""

    def __init__(self, classes=10, rate=.001, dtype=tf.float32, seed=1):
        super().__init__("momentum", rate, dtype)
        store = Variables(seed)
        self._convolutions, self._norms = [], []
        self._plan = [("conv", 7, 3, 64, 2)]
        channels = 64
        for inner, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
            for block in range(blocks):
                self._plan.append(("block", channels, inner, stride if block == 0 else 1,
                                   block == 0))
                channels = 4 * inner
        for what in self._plan:
            if what[0] == "conv":
                self._make(store, what[1], what[2], what[3])
            else:
                _, outer, inner, _, shortcut = what
                self._make(store, 1, outer, inner)
                self._make(store, 3, inner, inner)
                self._make(store, 1, inner, 4 * inner, last=True)
                if shortcut:
                    self._make(store, 1, outer, 4 * inner)
        self._dense = store.weights(channels, classes, gain=1.0)
        self._bias = store.zeros(classes)
        self.trained += [self._dense, self._bias]
        self._slots(store)

    def _make(self, store, size, inputs, outputs, last=False):
        self._convolutions.append(store.weights(size, size, inputs, outputs))
        # The last scale of a block starts at a fifth, so that the residual network trains stably.
        norm = [store._add(np.full(outputs, .2 if last else 1.0)), store.zeros(outputs)]
        self.trained += [self._convolutions[-1], *norm]
        self._norms.append(norm + [store.zeros(outputs), store.ones(outputs)])

    def _normalised(self, x, stride):
        at = self._at
        self._at += 1
        x = tf.nn.conv2d(x, tf.cast(self._convolutions[at], self.dtype), stride, "SAME")
        scale, offset, mean, variance = self._norms[at]
        x, *batch = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
        for moving, value in zip((mean, variance), batch):
            moving.assign_sub((moving - value) * .1)
        return x

    def loss(self, x, y):
        self._at = 0
        x = tf.nn.relu(self._normalised(tf.cast(x, self.dtype), 2))
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        for _, _, _, stride, shortcut in self._plan[1:]:
            inner = tf.nn.relu(self._normalised(x, stride))
            inner = tf.nn.relu(self._normalised(inner, 1))
            inner = self._normalised(inner, 1)
            x = tf.nn.relu(inner + (self._normalised(x, stride) if shortcut else x))
        x = tf.cast(tf.reduce_mean(x, [1, 2]), tf.float32)
        logits = x @ self._dense + self._bias
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


class Lstm(Network):
    """A language model: embedding, two LSTM layers in one loop, softmax; Adam."""

    def __init__(self, words=50, units=32, rate=.05, dtype=tf.float32, seed=1):
        super().__init__("adam", rate, dtype)
        store = Variables(seed)
        self._embedding = store.weights(words, units, gain=1.0 * words)
        self._cells = [(store.weights(2 * units, 4 * units, gain=1.0), store.zeros(4 * units))
                       for _ in range(2)]
        self._dense, self._bias = store.weights(units, words, gain=1.0), store.zeros(words)
        self._units = units
        self.trained = [self._embedding, *self._cells[0], *self._cells[1], self._dense, self._bias]
        self._slots(store)

    def loss(self, x, y):
        """x and y are words, [time, batch]."""
        steps, batch = x.shape
        cells = [tuple(tf.cast(part, self.dtype) for part in cell) for cell in self._cells]
        table = tf.cast(self._embedding, self.dtype)
        inputs = tf.TensorArray(self.dtype, steps).unstack(tf.gather(table, x))
        zeros = tf.zeros([batch, self._units], self.dtype)
        outputs = tf.TensorArray(self.dtype, steps, element_shape=zeros.shape)

        def body(t, out, *state):
            value, after = inputs.read(t), []
            for (w, b), h, c in zip(cells, state[::2], state[1::2]):
                i, j, f, o = tf.split(tf.concat([value, h], 1) @ w + b, 4, 1)
                c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
                value = tf.tanh(c) * tf.sigmoid(o)
                after += [value, c]
            return [t + 1, out.write(t, value), *after]
        hidden = tf.while_loop(lambda t, *_: t < steps, body, [0, outputs] + [zeros] * 4,
                               maximum_iterations=steps)[1].stack()
        logits = tf.cast(hidden, tf.float32) @ self._dense + self._bias
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def images(side, batch, classes=10, batches=4, seed=2):
    """Batches of noisy images of classes that differ."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, side, side, 3))
    made = []
    for _ in range(batches):
        labels = rng.integers(0, classes, batch).astype(np.int32)
        noise = rng.standard_normal((batch, side, side, 3))
        made.append(((centres[labels] + noise).astype(np.float32), labels))
    return made


def sentences(steps, batch, words=50, batches=4, seed=2):
    """Words each of which follows from the last, with some noise: [time, batch], shifted by one."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(batches):
        text = [rng.integers(0, words, batch)]
        for _ in range(steps):
            text.append(np.where(rng.random(batch) < .1, rng.integers(0, words, batch),
                                 (text[-1] * 7 + 3) % words))
        text = np.array(text, np.int32)
        made.append((text[:-1], text[1:]))
    return made
