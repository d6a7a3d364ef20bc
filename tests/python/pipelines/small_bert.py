"""A small BERT in the form of the original's applications, with the optimizers that these write
out; and its training by TensorFlow alone."""

import numpy as np
import tensorflow.compat.v1 as tf

WORDS, HIDDEN, HEADS, LENGTH, BATCH, MASKED = 24, 16, 2, 8, 2, 3


def data(count, seed=0):
    """(ids, positions of masked words, those words, classes), arrays of `count` mini-batches."""
    random = np.random.RandomState(seed)
    ids = random.randint(0, WORDS, [count, BATCH, LENGTH])
    places = np.stack([[random.permutation(LENGTH)[:MASKED] for _ in range(BATCH)]
                       for _ in range(count)])
    words = random.randint(0, WORDS, [count, BATCH, MASKED])
    classes = random.randint(0, 2, [count, BATCH])
    return [one.astype(np.int32) for one in (ids, places, words, classes)]


def variable(name, shape):
    random = np.random.RandomState(sum(name.encode()) + len(shape))
    return tf.get_variable(name, shape,
                           initializer=tf.constant_initializer(0.3 * random.randn(*shape)))


def linear(x, size, name):
    with tf.variable_scope(name):
        return tf.matmul(x, variable("kernel", [x.shape.as_list()[-1], size])) + variable(
            "bias", [size])


def plain_norm(x, name):
    with tf.variable_scope(name):
        mean, deviation = tf.nn.moments(x, [-1], keepdims=True)
        x = (x - mean) * tf.rsqrt(deviation + 1e-3)
        return x * variable("gamma", [HIDDEN]) + variable("beta", [HIDDEN])


def plain_gelu(x):
    return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class Bert:
    """The parts of the network; `norm(x, name)`, `gelu(x)` and `lookup(table, ids)` are given."""

    def __init__(self, norm=plain_norm, gelu=plain_gelu, lookup=tf.gather):
        self.norm, self.gelu, self.lookup = norm, gelu, lookup

    @staticmethod
    def table():
        with tf.variable_scope("embeddings", reuse=tf.AUTO_REUSE, use_resource=True):
            return variable("words", [WORDS, HIDDEN])

    def embed(self, ids):
        rows = self.lookup(self.table(), tf.reshape(ids, [-1]))
        with tf.variable_scope("embeddings", reuse=tf.AUTO_REUSE, use_resource=True):
            places = tf.tile(variable("places", [LENGTH, HIDDEN]), [BATCH, 1])
            return self.norm(rows + places, "norm")

    def layer(self, x, number):
        with tf.variable_scope(f"layer_{number}", use_resource=True):
            parts = []
            for name in ("query", "key", "value"):
                part = tf.reshape(linear(x, HIDDEN, name), [BATCH, LENGTH, HEADS, HIDDEN // HEADS])
                parts.append(tf.transpose(part, [0, 2, 1, 3]))
            query, key, value = parts
            scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(HIDDEN / HEADS)
            seen = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
            x = self.norm(x + linear(tf.reshape(seen, [-1, HIDDEN]), HIDDEN, "output"), "norm_1")
            wide = self.gelu(linear(x, 2 * HIDDEN, "wide"))
            return self.norm(x + linear(wide, HIDDEN, "narrow"), "norm_2")

    def masked_words(self, x, places, words):
        """The loss of the masked words, by the table of the embeddings."""
        rows = tf.reshape(places + LENGTH * tf.range(BATCH)[:, None], [-1])
        with tf.variable_scope("predictions", use_resource=True):
            x = self.norm(self.gelu(linear(tf.gather(x, rows), HIDDEN, "transform")), "norm")
            logits = tf.matmul(x, self.table(), transpose_b=True) + variable("bias", [WORDS])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(words, [-1]), logits=logits))

    def classify(self, x, classes):
        """The loss of a class, by the first word."""
        with tf.variable_scope("classifier", use_resource=True):
            first = tf.tanh(linear(tf.reshape(x, [BATCH, LENGTH, HIDDEN])[:, 0], HIDDEN, "pooler"))
            logits = linear(first, 2, "logits")
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits))


class AdamWeightDecay(tf.train.Optimizer):
    """Adam with decaying weights and, as LAMB, a rate by the norms of weight and update."""

    def __init__(self, rate, is_lamb=False):
        super().__init__(False, "AdamWeightDecay")
        self._rate, self._is_lamb = rate, is_lamb

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        done = []
        for gradient, weight in grads_and_vars:
            name = weight.op.name
            with tf.variable_scope("", use_resource=True):
                m, v = (tf.get_variable(f"{name}/{one}", weight.shape, trainable=False,
                                        initializer=tf.zeros_initializer())
                        for one in ("adam_m", "adam_v"))
            next_m = 0.9 * m + 0.1 * gradient
            next_v = 0.99 * v + 0.01 * tf.square(gradient)
            update = next_m / (tf.sqrt(next_v) + 1e-3)
            decays = "bias" not in name and "norm" not in name
            if decays:
                update += 0.01 * weight
            rate = self._rate
            if self._is_lamb and decays:
                norms = [tf.sqrt(tf.reduce_sum(tf.square(one))) for one in (weight, update)]
                rate *= tf.where(norms[0] > 0, tf.where(norms[1] > 0, norms[0] / norms[1], 1.0),
                                 1.0)
            done += [weight.assign(weight - rate * update), m.assign(next_m), v.assign(next_v)]
        return tf.group(*done, name=name)


def train_plainly(loss_of, optimizer, arrays, mini_batches):
    """({variable's name: value after all updates}, the losses)."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(one.dtype, one.shape[1:]) for one in arrays]
        loss = loss_of(*inputs)
        gradients, weights = zip(*optimizer.compute_gradients(loss))
        gradients = [tf.convert_to_tensor(one) for one in gradients]
        summed = [tf.placeholder(one.dtype, one.shape) for one in gradients]
        apply = optimizer.apply_gradients(list(zip(summed, weights)))
        session.run(tf.global_variables_initializer())
        losses = []
        for first in range(0, len(arrays[0]), mini_batches):
            sums = [0.0] * len(gradients)
            for number in range(first, first + mini_batches):
                value, *new = session.run([loss, *gradients], {
                    one: array[number] for one, array in zip(inputs, arrays)})
                losses.append(value)
                sums = [a + b for a, b in zip(sums, new)]
            session.run(apply, dict(zip(summed, sums)))
        values = session.run({one.op.name: one for one in tf.global_variables()})
    return values, losses
