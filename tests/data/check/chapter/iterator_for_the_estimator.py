# "Wrong input datatypes for the estimator because the code provides iterators".
import tensorflow.compat.v1 as tf


def input_fn():
    data = tf.data.Dataset.from_tensor_slices((tf.zeros([64, 8]), tf.zeros([64, 1])))
    iterator = tf.data.make_one_shot_iterator(data.repeat().batch(8, drop_remainder=True))
    return iterator.get_next()  #! iterator-input


def model_fn(features, labels, mode):
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


tf.estimator.Estimator(model_fn).train(input_fn, steps=100)
