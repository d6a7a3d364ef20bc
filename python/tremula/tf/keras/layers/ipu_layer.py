"""The base of the IPU's layers."""

import inspect

import tensorflow as tf

from tremula.tf.inner import keras as inner


class IPULayer(inner.public("layers").Layer):
    """A layer of Keras that computes with operations of the IPU's. It runs on the CPU too."""

    def _check_unsupported(self, arg, arg_name, method="__init__"):
        """Raises NotImplementedError if an argument that only Keras' layer knows is given."""
        if arg:
            name = type(self).__name__
            raise NotImplementedError(
                f"ipu_tensorflow_addons.keras.layers.{name} does not support {method} argument "
                f"{arg_name}. It is included for API consistencywith keras.{name}.")


def registered(cls):
    """Decorator: models with the class can be loaded without `custom_objects`, and AutoGraph leaves
    its `call` alone, which builds graphs by itself."""
    call = tf.autograph.experimental.do_not_convert(cls.call)
    call.__signature__ = inspect.signature(cls.call)  # Keras asks for the arguments' names
    cls.call = call
    return inner.registered(cls)
