# "Others spread one task and one batch of data across multiple devices".
import tensorflow as tf

x = tf.zeros([8, 4])
with tf.device("/gpu:1"):  #! gpu-only
    h = tf.keras.layers.Dense(8)(x)
with tf.device("/cpu:0"):
    y = tf.keras.layers.Dense(1)(h)
