"""Functions in Python as operations of the CPU, whose errors keep their kind: TensorFlow's own way
makes an UnknownError of all that it does not know."""

import numpy as np
import tensorflow.compat.v1 as tf

from tremula import core
from tremula.tf.inner import errors, graphs


def call(function, inputs, types, name=None):
    """The tensors, of `types`, that function(*arrays) gives as a list: at once in eager mode, else
    when the graph runs. An error of libtremula or of TensorFlow is in both TensorFlow's error of
    that status code. `name` is the operation's."""
    if tf.executing_eagerly():
        return _call_now(function, inputs, types)

    def guarded(*values):
        try:
            return [np.int32(0), np.zeros(0, np.uint8), *function(*values)]
        except core.TremulaError as error:
            code, message = error.status, str(error)
        except tf.errors.OpError as error:
            code, message = error.error_code, error.message
        return [np.int32(code), np.frombuffer(message.encode(), np.uint8), *map(_nothing, types)]

    code, message, *results = tf.numpy_function(guarded, inputs, [tf.int32, tf.uint8, *types],
                                                name=name)
    with tf.device("/device:CPU:0"), tf.control_dependencies([
            graphs.apply_op("IpuRaise", code=code, message=message)]):
        return [tf.identity(one) for one in results]


def _call_now(function, inputs, types):
    with tf.device("/device:CPU:0"):
        try:
            values = function(*[one.numpy() for one in inputs])
        except core.TremulaError as error:
            raise errors.error_class(error.status)(None, None, str(error)) from error
        return [tf.convert_to_tensor(one, dtype) for one, dtype in zip(values, types)]


def _nothing(dtype):
    """A value of a type."""
    return b"" if dtype == tf.string else np.zeros((), dtype.as_numpy_dtype)
