"""`tf.contrib.framework`: what moved to TensorFlow itself."""

import tensorflow.compat.v1 as tf

nest = tf.nest
get_or_create_global_step = tf.train.get_or_create_global_step
get_global_step = tf.train.get_global_step


def __getattr__(name):
    raise AttributeError(f"tf.contrib.framework.{name} is a part of tf.contrib that Tremula does "
                         "not have.")
