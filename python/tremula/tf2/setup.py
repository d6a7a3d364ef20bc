"""Prepares this process for a program of TensorFlow 2.0 to 2.6."""

import importlib
import importlib.util
import sys

from tremula._finder import alias_spec
from tremula.old_programs import names
from tremula.tf.inner import versions


def install():
    """Does it, once for the process; before anything imports TensorFlow, if Keras 2 is to be
    found on a TensorFlow that comes with Keras 3."""
    versions.prefer_legacy_keras()
    importlib.import_module("tensorflow.python.ipu")
    if versions.keras_package() != "keras":
        sys.meta_path.insert(0, _KerasFinder())
    names.restore("tremula.tf2")


class _KerasFinder:
    """Finds Keras 2 as `keras`, as that package was: each module is one object under both names."""

    def find_spec(self, fullname, path=None, target=None):
        root, dot, tail = fullname.partition(".")
        if root != "keras":
            return None
        name = versions.keras_package() + dot + tail
        try:
            known = name in sys.modules or importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            known = False
        return alias_spec(fullname, name) if known else None
