"""`tf.contrib.util`: tensors as protocol buffers, and their constant values."""

from tensorflow.compat.v1 import make_ndarray, make_tensor_proto

from tremula.tf.inner.contrib import constant_value
from tremula.tf1 import missing

__path__ = []  # the original had files below

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]


def __getattr__(name):
    raise missing.attribute("util", name)
