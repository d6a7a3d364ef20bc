"""Eager execution (`tensorflow.python.ipu.eager`)."""

import importlib


def __getattr__(name):
    if name == "backprop":
        return importlib.import_module(f"{__name__}.backprop")
    if name in ("GradientCaptureContext", "GradientCaptureTape"):
        return getattr(importlib.import_module(f"{__name__}.backprop"), name)
    raise AttributeError(f"module 'tensorflow.python.ipu.eager' has no attribute {name!r}")
