"""The module that a TensorFlow 1 script gets as `tensorflow`."""

import importlib
import os
import sys
import types

_OWN = {"contrib": "tremula.tf1.contrib",
        "pywrap_tensorflow": "tensorflow.python.pywrap_tensorflow"}
_REAL = ("compat", "compiler", "core", "python")

# The release that programs of the last SDKs with TensorFlow 1 ran on.
VERSION = "1.15.5"


def version(tensorflow, frame):
    """What `tf.__version__` is to the code of `frame`: TensorFlow 1's to programs, which may
    refuse to run with another, and the one there is to installed packages, which want it or a
    newer one."""
    file = frame.f_code.co_filename
    installed = f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
    return tensorflow.__version__ if installed else VERSION


class TensorFlow1(types.ModuleType):
    """`tensorflow.compat.v1`, then tf.contrib and TensorFlow's inner packages, then what only
    TensorFlow 2 has."""

    def __init__(self, tensorflow, v1):
        super().__init__("tensorflow", tensorflow.__doc__)
        self.__dict__.update(
            __file__=tensorflow.__file__, __path__=tensorflow.__path__,
            __package__="tensorflow", __spec__=tensorflow.__spec__, _real=tensorflow, _v1=v1)

    def __getattr__(self, name):  # only called for what is not there
        if name in ("__version__", "VERSION"):
            return version(self._real, sys._getframe(1))
        if name in _OWN:
            value = importlib.import_module(_OWN[name])
        elif name in _REAL:
            value = importlib.import_module(f"tensorflow.{name}")
        else:
            value = _first(name, (self._v1, self._real))
        setattr(self, name, value)
        return value

    def __dir__(self):
        return sorted({*self.__dict__, *dir(self._v1), *_OWN, *_REAL})


def _first(name, modules):
    for module in modules:
        try:
            return getattr(module, name)
        except AttributeError:
            pass
    raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")
