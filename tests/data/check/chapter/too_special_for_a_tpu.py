# "If your code is very specialized for a device": a TPUEstimator.
import tensorflow.compat.v1 as tf


def model_fn(features, labels, mode, params):
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices((tf.zeros([64, 8]), tf.zeros([64, 1])))
    return data.repeat().batch(params["batch_size"], drop_remainder=True)


estimator = tf.estimator.tpu.TPUEstimator(model_fn, train_batch_size=8)  #! tpu-only
estimator.train(input_fn, max_steps=100)
