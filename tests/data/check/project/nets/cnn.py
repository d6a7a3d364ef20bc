import tensorflow as tf

from .base import Root
from .losses import smooth


class Base(Root):
    def head(self, x):
        return tf.signal.fft2d(tf.cast(x, tf.complex64))  #! unsupported-op float64


class Net(Base):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(4)

    def call(self, x):
        return self.dense(tf.abs(self.head(x)))


def loss_of(y, labels):
    return smooth(y, labels) + tf.reduce_mean(tf.linalg.det(y))  #! unsupported-op
