"""Mixed precision in TensorFlow 1 with towers by hand (float16 storage, float32 master weights)."""
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
os.environ['TF_ENABLE_AUTO_MIXED_PRECISION'] = '0'


def float32_getter(getter, name, shape=None, dtype=None, initializer=None, regularizer=None,
                   trainable=True, *args, **kwargs):
    storage = tf.float32 if trainable else dtype
    variable = getter(name, shape, dtype=storage, initializer=initializer, regularizer=regularizer,
                      trainable=trainable, *args, **kwargs)
    if trainable and dtype != tf.float32:
        variable = tf.cast(variable, dtype)
    return variable


def network(x, labels):
    x = tf.cast(x, tf.float16)
    with tf.variable_scope('net', custom_getter=float32_getter):
        for i in range(3):
            x = tf.layers.conv2d(x, 64 * 2 ** i, 3, 2, activation=tf.nn.relu)
        x = tf.layers.flatten(x)
        logits = tf.layers.dense(x, 100)
    logits = tf.cast(logits, tf.float32)
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def main():
    batch, scale = 64, 1024.0
    with tf.device('/device:GPU:0'):  #! gpu-only
        x = tf.placeholder(tf.float32, [batch, 64, 64, 3])
        y = tf.placeholder(tf.int32, [batch])
        loss = network(x, y)
        variables = tf.trainable_variables()
        grads = [g / scale for g in tf.gradients(loss * scale, variables)]
        step = tf.train.get_or_create_global_step()
        rate = tf.train.polynomial_decay(0.1, step, 10000)
        train = tf.train.MomentumOptimizer(rate, 0.9).apply_gradients(
            zip(grads, variables), global_step=step)  #! global-step
    with tf.train.MonitoredTrainingSession(checkpoint_dir='amp') as session:
        while not session.should_stop():
            images = np.random.rand(batch, 64, 64, 3)
            _, value = session.run([train, loss], {x: images, y: np.random.randint(100, size=batch)})  #! feed-without-queue


if __name__ == '__main__':
    main()
