"""Names in TensorFlow's inner modules that programs of TensorFlow 1 import: those that have moved,
and what TensorFlow's own copy of Keras has lost."""

import importlib

from tremula.tf import moved_names

# Modules of TensorFlow's own copy of Keras, which lost most of itself -> tf.keras's.
_KERAS = ("datasets", "layers", "optimizers", "utils")


def restore(v1):
    """Puts them where they were, where they are missing; `v1` is tensorflow.compat.v1."""
    moved_names.restore()
    from tensorflow.python.framework import tensor_shape
    if not hasattr(tensor_shape, "scalar"):
        tensor_shape.scalar = lambda: tensor_shape.TensorShape([])
    _look_in_keras(v1)


def _look_in_keras(v1):
    package = importlib.import_module("tensorflow.python.keras")

    def inside(part):
        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(getattr(v1.keras, part), name)
        return find

    for part in _KERAS[1:]:
        module = importlib.import_module(f"tensorflow.python.keras.{part}")
        if "__getattr__" not in vars(module):
            module.__getattr__ = inside(part)
    if "__getattr__" not in vars(package):
        def find_module(name):
            if name in _KERAS:
                return importlib.import_module(f"tensorflow.python.keras.{name}")
            raise AttributeError(f"module 'tensorflow.python.keras' has no attribute {name!r}")
        package.__getattr__ = find_module
