"""What Tremula has of `tf.contrib`. Every other name is an error that says so."""

import importlib

from tremula.tf1 import missing

_MODULES = ("compiler", "data", "framework", "layers", "losses", "metrics", "opt", "rnn",
            "seq2seq", "training", "util")
_ELSEWHERE = ("ipu", "slim")  # found under TensorFlow's name


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        return importlib.import_module(f"tensorflow.contrib.{name}")
    raise missing.attribute("", name)
