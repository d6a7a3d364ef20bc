import tensorflow as tf


class Root(tf.keras.Model):
    pass
