"""A model_fn with helpers that nobody calls, and a session that is called s."""
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
tf.disable_v2_behavior()


def model_fn(features, labels, mode):
    debug = lambda x: tf.summary.histogram("debug", x)
    show = lambda x: tf.summary.scalar("shown", x)  #! summary-inside

    def unused(x):
        return tf.py_func(np.sin, [x], tf.float32)

    def used(x):
        return tf.py_func(np.sin, [x], tf.float32)  #! host-call

    cell = tf.contrib.rnn.LSTMBlockCell(8)  #! unsupported-op
    loss = tf.reduce_mean(used(cell(features)))
    show(loss)
    with tf.device("cpu"):
        drawn = tf.py_func(np.cos, [loss], tf.float32)  #! host-call
    return tf.estimator.EstimatorSpec(mode, loss=loss + drawn)


estimator = ipu.ipu_estimator.IPUEstimator(model_fn)
x = tf.placeholder(tf.float32, [8])
loss = tf.reduce_mean(x)
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session() as s:
    for step in range(99):
        _, value = s.run([train, loss], {x: np.ones(8) * step})  #! feed-without-queue
