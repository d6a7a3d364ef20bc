import tensorflow as tf


def smooth(y, labels):
    return tf.reduce_mean(tf.numpy_function(abs, [y - labels], tf.float32))  #! host-call
