"""TensorFlow 1: called by tremula.tf1 only."""

import importlib
import sys

from tremula.tf.inner import old_names


def silence_deprecations():
    """Stops TensorFlow 2 from saying of TensorFlow 1's names that they are TensorFlow 1's."""
    from tensorflow.python.util import deprecation, module_wrapper
    deprecation._PRINT_DEPRECATION_WARNINGS = False
    module_wrapper._PER_MODULE_WARNING_LIMIT = 0


def accept_float_dimensions():
    """Makes a float that is a whole number a dimension, as in `shape=[3, 3, 128 / 32, 8]`.

    Other floats raise ValueError. A Dimension divided by `/` is a float, too.
    """
    import numpy
    from tensorflow.python.framework import tensor_shape

    make = tensor_shape.Dimension.__init__

    def make_whole(self, value):
        if isinstance(value, (float, numpy.floating)):
            if value != int(value):
                raise ValueError(f"Ambiguous dimension: {value}")
            value = int(value)
        make(self, value)

    def divide(self, other):
        other = getattr(other, "value", other)
        return None if self.value is None or other is None else self.value / other

    def divide_by(self, other):
        return None if self.value is None else other / self.value

    tensor_shape.Dimension.__init__ = make_whole
    tensor_shape.Dimension.__truediv__ = divide
    tensor_shape.Dimension.__rtruediv__ = divide_by


def count_resources_as_variables(v1):
    """Makes `isinstance(variable, tf.Variable)` true of resource variables too."""
    from tensorflow.python.ops import variables
    first, any_variable = v1.Variable, variables.Variable

    def is_variable(cls, value):
        return type.__instancecheck__(any_variable if cls is first else cls, value)

    variables.VariableMetaclass.__instancecheck__ = is_variable


def restore_layer_classes(v1):
    """Gives `tensorflow.python.layers` the classes of tf.layers: TensorFlow looks for them in a
    package, legacy_tf_layers, that Keras keeps elsewhere now."""
    together = importlib.import_module("tensorflow.python.layers.layers")
    for name, (classes, functions) in old_names.LAYERS.items():
        module = importlib.import_module(f"tensorflow.python.layers.{name}")
        for attribute in (*classes, *functions):
            setattr(module, attribute, getattr(v1.layers, attribute))
        for attribute in functions:
            setattr(together, attribute, getattr(v1.layers, attribute))


def restore_keras_modules(v1):
    """Gives TensorFlow's own copy of Keras the modules that the copy lost: those of tf.keras."""
    package = importlib.import_module("tensorflow.python.keras")

    def of_keras(part):
        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(getattr(v1.keras, part), name)
        return find

    for part in old_names.KERAS_PARTS:
        module = importlib.import_module(f"tensorflow.python.keras.{part}")
        if "__getattr__" not in vars(module):
            module.__getattr__ = of_keras(part)
    if "__getattr__" not in vars(package):
        def find_module(name):
            if name in old_names.KERAS_MODULES:
                return importlib.import_module(f"tensorflow.python.keras.{name}")
            raise AttributeError(f"module 'tensorflow.python.keras' has no attribute {name!r}")
        package.__getattr__ = find_module


def restore_scalar_shape():
    """Gives `tensor_shape` the function scalar() again."""
    from tensorflow.python.framework import tensor_shape
    if not hasattr(tensor_shape, "scalar"):
        tensor_shape.scalar = lambda: tensor_shape.TensorShape([])


def restore_data_statistics(names, options):
    """Gives tf.data.experimental `names` ({name: value}), which TensorFlow 2 dropped, where they
    are missing, and tf.data.Options the property `experimental_stats`."""
    import tensorflow.compat.v1 as tf
    for name, value in names.items():
        if not hasattr(tf.data.experimental, name):
            setattr(tf.data.experimental, name, value)
    if not hasattr(tf.data.Options, "experimental_stats"):
        tf.data.Options.experimental_stats = options


def restore_app_flags(v1):
    """Gives tf.app the flags, as TensorFlow 1 had them."""
    v1.app.flags = v1.flags


def answer_version(v1, version):
    """Makes `tensorflow.compat.v1.__version__` and VERSION what version(frame) says to the code of
    a frame."""
    def get(name):
        if name not in ("__version__", "VERSION"):
            if before is not None:
                return before(name)
            raise AttributeError(f"module {v1.__name__!r} has no attribute {name!r}")
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith("module_wrapper.py"):
            frame = frame.f_back
        return version(frame)

    wrapped = getattr(v1, "_tfmw_wrapped_module", v1)  # TensorFlow asks it for what v1 lacks
    before = vars(wrapped).get("__getattr__")
    for module in (v1, wrapped):
        for name in ("__version__", "VERSION"):
            vars(module).pop(name, None)
    wrapped.__dict__["__getattr__"] = get
