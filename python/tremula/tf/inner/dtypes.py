"""Types by their numbers in protocol buffers."""


def dtype_name(number):
    """The name of a type, such as "float32", from its number in protocol buffers."""
    from tensorflow.core.framework import types_pb2
    name = types_pb2.DataType.Name(number)
    name = name[len("DT_"):].lower()
    return {"float": "float32", "half": "float16", "double": "float64"}.get(
        name.removesuffix("_ref"), name)


def with_half(numbers):
    """Numbers of types, with float16 among them."""
    from tensorflow.core.framework import types_pb2
    return sorted({*numbers, types_pb2.DT_HALF})


def numpy_type(number):
    """The numpy type of a type's number in protocol buffers."""
    from tensorflow.python.framework import dtypes
    return dtypes.as_dtype(number).as_numpy_dtype
