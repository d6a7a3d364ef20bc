"""Tremula: TensorFlow programs written for Graphcore's IPU, on stock TensorFlow.

Importing this package costs next to nothing and loads no TensorFlow: the import finder
(`tremula._finder`) is loaded with it at every start of the interpreter.
"""


def __getattr__(name):
    if name == "__version__":  # the library's own, which stands in include/tremula/tremula.h
        from tremula import core
        return core.version()
    if name == "report":  # a profile that a notebook shows in place
        from tremula.tool.view import Report
        return Report
    raise AttributeError(f"module 'tremula' has no attribute {name!r}")
