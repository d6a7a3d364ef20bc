"""A small classifier, and its training by TensorFlow alone: what pipelines and gradient
accumulation must agree with."""

import numpy as np
import tensorflow.compat.v1 as tf

FEATURES, CLASSES, BATCH = 8, 3, 4
_random = np.random.RandomState(0)
INPUTS = _random.randn(96, FEATURES).astype(np.float32)
LABELS = (INPUTS[:, :CLASSES].argmax(1)).astype(np.int32)
_WEIGHTS = {"first": 0.3 * _random.randn(FEATURES, 6).astype(np.float32),
            "second": 0.3 * _random.randn(6, 6).astype(np.float32),
            "third": 0.3 * _random.randn(6, CLASSES).astype(np.float32)}


def dataset():
    return tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(
        BATCH, drop_remainder=True).repeat()


def layer(x, name, activation=None):
    with tf.variable_scope(name, use_resource=True):
        return tf.layers.dense(x, _WEIGHTS[name].shape[1], activation=activation,
                               kernel_initializer=tf.constant_initializer(_WEIGHTS[name]))


def loss_of(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def network(x, labels):
    x = layer(x, "first", tf.nn.tanh)
    x = layer(x, "second", tf.nn.relu)
    return loss_of(layer(x, "third"), labels)


def train(make_optimizer, mini_batches, updates, mean):
    """(losses of all mini-batches, {variable's name: value}) after `updates` updates, each with
    the sum or mean of the gradients of that many mini-batches."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [BATCH, FEATURES])
        labels = tf.placeholder(tf.int32, [BATCH])
        loss = network(x, labels)
        optimizer = make_optimizer()
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        fed = [tf.placeholder(one.dtype, one.shape) for one in gradients]
        apply = optimizer.apply_gradients(zip(fed, variables))
        session.run(tf.global_variables_initializer())
        losses, position = [], 0
        for _ in range(updates):
            sums = [0.0] * len(gradients)
            for _ in range(mini_batches):
                taken = slice(position, position + BATCH)
                position = (position + BATCH) % len(INPUTS)
                value, *new = session.run([loss, *gradients],
                                          {x: INPUTS[taken], labels: LABELS[taken]})
                losses.append(value)
                sums = [one + more for one, more in zip(sums, new)]
            if mean:
                sums = [one / mini_batches for one in sums]
            session.run(apply, dict(zip(fed, sums)))
        return np.array(losses), {one.name: session.run(one) for one in tf.global_variables()}
