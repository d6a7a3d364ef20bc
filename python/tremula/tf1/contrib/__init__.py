"""What Tremula has of `tf.contrib`. Every other name is an error that says so."""

import importlib

_MODULES = ("compiler", "framework", "layers")


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"tf.contrib.{name} is a part of tf.contrib that Tremula does not have.")
