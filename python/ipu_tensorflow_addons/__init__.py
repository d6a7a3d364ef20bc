"""Graphcore's package ipu_tensorflow_addons: layers that were once part of its TensorFlow.

`layers` and `v1.layers` are ipu.rnn_ops, `keras` is tremula.tf.keras.
"""

import importlib


def __getattr__(name):
    if name in ("keras", "layers", "optimizers", "saved_model_tool", "test_utils", "v1"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
