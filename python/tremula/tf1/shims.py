"""What TensorFlow 1, and the NumPy and Python of its days, accepted and today's do not."""

import functools

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
