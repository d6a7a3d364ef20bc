"""What Tremula has of `tf.contrib`, for programs that `python -m tremula.tf1` runs.

`tensorflow.contrib.ipu` is `tensorflow.python.ipu`, and `tensorflow.contrib.slim` is the package
tf_slim. Every name that is not there is an error that says so.
"""

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
