"""What TensorFlow 1 and the NumPy of its days accepted and today's do not."""

# Names that NumPy 1.24 and 2.0 removed -> what they were.
_BUILTINS = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object,
             "str": str, "long": int, "unicode": str}
_RENAMED = {"float_": "float64", "complex_": "complex128", "string_": "bytes_",
            "unicode_": "str_", "Inf": "inf", "Infinity": "inf", "NaN": "nan", "NAN": "nan",
            "product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any",
            "round_": "round", "row_stack": "vstack", "in1d": "isin"}


def restore_numpy_names():
    """Gives NumPy the removed names again, where they are missing."""
    import numpy
    for name, value in _BUILTINS.items():
        if name not in vars(numpy):
            setattr(numpy, name, value)
    for name, today in _RENAMED.items():
        if name not in vars(numpy):
            setattr(numpy, name, getattr(numpy, today))


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
