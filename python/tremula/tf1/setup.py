"""Makes the modules of this process look like TensorFlow 1's."""

import importlib
import importlib.util
import logging
import sys
import warnings

from tremula._finder import alias_spec
from tremula.tf import compat
from tremula.tf1 import facade, shims

# Packages of TensorFlow that are not its public API: they stay what they are.
_INNER = ("_api", "compat", "compiler", "core", "distribute", "dtensor", "include", "lite",
          "python", "security", "tools", "tsl")

_V1 = "tensorflow.compat.v1"


def install():
    """Does it, once for the process; before anything imports TensorFlow, if Keras 2 is to be
    found on a TensorFlow that comes with Keras 3."""
    compat.prefer_legacy_keras()
    import tensorflow
    v1 = importlib.import_module(_V1)
    _without_warnings(v1.disable_v2_behavior)
    warnings.filterwarnings("ignore", message=r"`tf\.layers\..*` is deprecated")
    shims.accept_float_dimensions()
    shims.restore_numpy_names()
    sys.modules["tensorflow"] = facade.TensorFlow1(tensorflow, v1)
    sys.meta_path.insert(0, TensorFlow1Finder())


class TensorFlow1Finder:
    """Finds `tensorflow_core`, `tensorflow.contrib` and the public modules below `tensorflow`."""

    def find_spec(self, fullname, path=None, target=None):
        top, _, tail = fullname.partition(".")
        if top == "tensorflow_core":
            return alias_spec(fullname, f"tensorflow.{tail}" if tail else "tensorflow")
        if top != "tensorflow" or not tail:
            return None
        first = tail.partition(".")[0]
        if first == "contrib":
            return self._contrib(fullname, tail)
        if first in _INNER:
            return None
        own = f"{_V1}.{tail}"
        try:
            known = own in sys.modules or importlib.util.find_spec(own) is not None
        except ModuleNotFoundError:
            known = False
        return alias_spec(fullname, own) if known else None

    @staticmethod
    def _contrib(fullname, tail):
        own = f"tremula.tf1.{tail}"
        if own not in sys.modules:
            try:
                known = importlib.util.find_spec(own) is not None
            except ModuleNotFoundError:
                known = False
            if not known:
                raise ImportError(f"{fullname} is a part of tf.contrib that Tremula does not have.",
                                  name=fullname)
        return alias_spec(fullname, own)


def _without_warnings(function):
    # disable_v2_behavior() warns that variables are not resources: as they were in TensorFlow 1.
    log = logging.getLogger("tensorflow")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        function()
    finally:
        log.setLevel(level)
