"""What TensorFlow 1, and the NumPy and Python of its days, accepted and today's do not."""

import functools

# Names that NumPy 1.24 and 2.0 removed -> what they were.
_BUILTINS = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object,
             "str": str, "long": int, "unicode": str}
_RENAMED = {"float_": "float64", "complex_": "complex128", "string_": "bytes_",
            "unicode_": "str_", "Inf": "inf", "Infinity": "inf", "NaN": "nan", "NAN": "nan",
            "product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any",
            "round_": "round", "row_stack": "vstack", "in1d": "isin"}


def silence_deprecations():
    """Stops TensorFlow 2 from saying of TensorFlow 1's names that they are TensorFlow 1's."""
    from tensorflow.python.util import deprecation, module_wrapper
    deprecation._PRINT_DEPRECATION_WARNINGS = False
    module_wrapper._PER_MODULE_WARNING_LIMIT = 0


def restore_numpy_names():
    """Gives NumPy the removed names again, where they are missing."""
    import numpy
    for name, value in _BUILTINS.items():
        if name not in vars(numpy):
            setattr(numpy, name, value)
    for name, today in _RENAMED.items():
        if name not in vars(numpy):
            setattr(numpy, name, getattr(numpy, today))


def restore_python_names():
    """Gives Python's own modules the names again that Python 3.8 to 3.11 removed, and `open` the
    mode "U", which has been how text is read anyway."""
    import builtins
    import collections
    import collections.abc
    import fractions
    import inspect
    import math
    import time

    def open_universal(file, mode="r", *arguments, **keywords):
        if isinstance(mode, str) and "U" in mode:
            mode = mode.replace("U", "") or "r"
            mode = mode if "r" in mode else "r" + mode
        return opened(file, mode, *arguments, **keywords)

    def getargspec(func):
        full = inspect.getfullargspec(func)
        return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)

    opened = builtins.open
    if not hasattr(opened, "__wrapped__"):
        builtins.open = functools.wraps(opened)(open_universal)
    ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
    missing = [(collections, name, getattr(collections.abc, name))
               for name in collections.abc.__all__]
    missing += [(inspect, "ArgSpec", ArgSpec), (inspect, "getargspec", getargspec),
                (time, "clock", time.perf_counter), (fractions, "gcd", math.gcd)]
    for module, name, value in missing:
        if name not in vars(module):
            setattr(module, name, value)


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
    import importlib
    classes = {
        "core": ("Dense", "Dropout", "Flatten"),
        "convolutional": ("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose",
                          "SeparableConv1D", "SeparableConv2D"),
        "normalization": ("BatchNormalization",),
        "pooling": ("AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "MaxPooling1D",
                    "MaxPooling2D", "MaxPooling3D"),
    }
    functions = {
        "core": ("dense", "dropout", "flatten"),
        "convolutional": ("conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose",
                          "separable_conv1d", "separable_conv2d"),
        "normalization": ("batch_normalization",),
        "pooling": ("average_pooling1d", "average_pooling2d", "average_pooling3d",
                    "max_pooling1d", "max_pooling2d", "max_pooling3d"),
    }
    for name, own in classes.items():
        module = importlib.import_module(f"tensorflow.python.layers.{name}")
        for attribute in (*own, *functions[name]):
            setattr(module, attribute, getattr(v1.layers, attribute))
    together = importlib.import_module("tensorflow.python.layers.layers")
    for attribute in sum(functions.values(), ()):
        setattr(together, attribute, getattr(v1.layers, attribute))
