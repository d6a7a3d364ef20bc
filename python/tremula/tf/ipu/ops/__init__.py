"""The IPU's own operations. Each module is shown as `ipu.X` too."""

import importlib

from tremula import _finder
from tremula.tf.ipu import _planned


def __getattr__(name):
    module = None if name.startswith("__") else _finder.resolve("tremula.tf.ipu", f"ops.{name}")
    if module is None:
        raise AttributeError(_planned.message(f"ops.{name}")
                             or f"module 'tensorflow.python.ipu.ops' has no attribute {name!r}")
    return importlib.import_module(module)
