"""Checks of arguments, in the function that gets them. Messages say the argument's name.

Each function returns the value. All raise TypeError for a value of another kind and ValueError for
one that is out of range; with `optional`, None stands for the default.
"""

import numbers
import os


def integer(name, value, least=None, most=None, optional=False):
    """An int, or what stands for one such as a np.int64; a bool does not."""
    if optional and value is None:
        return value
    if is_bool(value) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, but it is {value!r}.")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, but it is {value}.")
    return value


def whole(name, value, least=None, optional=False):
    """An int, also where programs divide with `/`: 64.0 stands for 64. Returns Python's int."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    value = integer(name, value, least, optional=optional)
    return None if value is None else int(value)


def scalar(name, value):
    """An int or a scalar tensor of any numbers; floats of whole numbers will do."""
    import tensorflow.compat.v1 as tf
    rank = value.shape.rank if isinstance(value, (tf.Tensor, tf.Variable)) else None
    if is_tensor(value) and rank in (0, None) or not is_bool(value) and (
            hasattr(value, "__index__") and not getattr(value, "ndim", 0)
            or isinstance(value, numbers.Real) and float(value).is_integer()):
        return value
    raise TypeError(f"{name} must be an int or an integer tensor, not {value!r}.")


def number(name, value, least=None, most=None, optional=False):
    """An int, a float, or what stands for one such as a np.float32."""
    if optional and value is None:
        return value
    if is_bool(value) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, but it is {value!r}.")
    if least is not None and not value >= least or most is not None and not value <= most:
        bounds = " and ".join(f"{words} {bound}" for words, bound in (
            ("at least", least), ("at most", most)) if bound is not None)
        raise ValueError(f"{name} must be {bounds}, but it is {value}.")
    return value


def boolean(name, value, optional=False):
    """A bool; 0 and 1, which a command line's arguments may be, stand for one."""
    if optional and value is None:
        return value
    if is_bool(value) or type(value) is int and value in (0, 1):
        return bool(value)
    raise TypeError(f"{name} must be a bool, but it is {value!r}.")


def text(name, value, optional=False):
    """A str."""
    if optional and value is None or isinstance(value, str):
        return value
    raise TypeError(f"{name} must be a str, but it is {value!r}.")


def path(name, value, optional=False):
    """A str, bytes or an os.PathLike. Returns a str."""
    if optional and value is None:
        return value
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be a path, a str or an os.PathLike, but it is {value!r}.")
    return os.fsdecode(value)


def function(name, value, optional=False):
    """Something that can be called."""
    if optional and value is None or callable(value):
        return value
    raise TypeError(f"{name} must be a function, not {value!r}.")


def dtype(name, value):
    """A type of TensorFlow or NumPy or its name, a function that gives one, or None."""
    import tensorflow.compat.v1 as tf
    if value is None or callable(value) and not isinstance(value, (type, tf.DType)):
        return value
    try:
        if isinstance(value, numbers.Number):
            raise TypeError("a number")
        tf.as_dtype(value)
    except TypeError:
        raise TypeError(f"{name} must be a type, such as tf.float32, but it is {value!r}."
                        ) from None
    return value


def tensors(name, values):
    """Tensors of the values, a list."""
    import tensorflow.compat.v1 as tf
    try:
        return [tf.convert_to_tensor(one) for one in values]
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must be tensors, or what can be made one: {error}") from None


def is_bool(value):
    """Whether a value is Python's or NumPy's True or False."""
    return type(value).__name__ in ("bool", "bool_") and not is_tensor(value)


def is_tensor(value):
    """Whether a value is a tensor or a variable of TensorFlow."""
    import tensorflow.compat.v1 as tf
    return isinstance(value, tf.Variable) or tf.is_tensor(value)
