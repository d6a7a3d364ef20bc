"""Makes the modules of this process look like TensorFlow 1's."""

import functools
import importlib
import importlib.util
import logging
import sys
import types
import warnings
from importlib.machinery import PathFinder

from tremula._finder import alias_spec
from tremula.old_programs import names
from tremula.tf.inner import patches, versions
from tremula.tf1 import contrib, contrib_slim, facade, missing

# Packages of TensorFlow that are not its public API: they stay what they are.
_INNER = ("_api", "compat", "compiler", "core", "distribute", "dtensor", "include", "lite",
          "python", "security", "tools", "tsl")

# Inner modules that have other names today.
_RENAMED = {
    "python.distribute.distribution_strategy_context":
        "tensorflow.python.distribute.distribute_lib",
    "python.training.distribute": "tensorflow.python.distribute.distribute_lib",
    "pywrap_tensorflow": "tensorflow.python.pywrap_tensorflow",
    "tools.graph_transforms": "tremula.tf1.graph_transforms",
}

_V1 = "tensorflow.compat.v1"
_OWN_CONTRIB = "tremula.tf1.contrib."

# Parts of tf.contrib that are modules elsewhere.
_CONTRIB_ALIASES = {
    "contrib.compiler.jit": "tensorflow.python.compiler.xla.jit",
    "contrib.compiler.xla": "tensorflow.python.compiler.xla.xla",
    "contrib.ipu.python": "tensorflow.python.ipu",
    "contrib.ipu": "tensorflow.python.ipu",
    "contrib.slim": "tf_slim",
}


def install():
    """Does it, once for the process; before anything imports TensorFlow, if Keras 2 is to be
    found on a TensorFlow that comes with Keras 3."""
    versions.prefer_legacy_keras()
    import tensorflow
    v1 = importlib.import_module(_V1)
    _without_warnings(v1.disable_v2_behavior)
    warnings.filterwarnings("ignore", message=r"`tf\.layers\..*` is deprecated")
    patches.silence_deprecations()
    patches.accept_float_dimensions()
    patches.restore_moved_names()
    patches.restore_scalar_shape()
    patches.restore_keras_modules(v1)
    patches.restore_layer_classes(v1)
    patches.count_resources_as_variables(v1)
    patches.keep_half_batch_norm_parameters(load=True)
    from tremula.tf1 import data_statistics
    data_statistics.restore()
    patches.restore_app_flags(v1)
    patches.answer_version(v1, functools.partial(facade.version, tensorflow))
    sys.modules["tensorflow"] = facade.TensorFlow1(tensorflow, v1)
    sys.meta_path.insert(0, TensorFlow1Finder())
    # There the device was TensorFlow's own: a program needs no import to place something on it.
    importlib.import_module("tensorflow.python.ipu")
    names.restore("tremula.tf1")


class TensorFlow1Finder:
    """Finds `tensorflow_core`, `tensorflow.contrib`, `tensorflow.examples`, the public modules
    below `tensorflow`, and inner ones that have other names today."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(_OWN_CONTRIB):
            return self._inside(fullname)
        top, _, tail = fullname.partition(".")
        if top == "tensorflow_core":
            return alias_spec(fullname, f"tensorflow.{tail}" if tail else "tensorflow")
        if top != "tensorflow" or not tail:
            return None
        first = tail.partition(".")[0]
        if first == "contrib":
            return self._contrib(fullname, tail)
        if first == "examples":
            own = f"tremula.tf1.{tail}"
            return alias_spec(fullname, own) if importlib.util.find_spec(own) else None
        if tail in _RENAMED:
            return alias_spec(fullname, _RENAMED[tail])
        if first in _INNER:
            return None
        public = _public_module(tail)
        if public is not None:
            return alias_spec(fullname, public)
        own = f"{_V1}.{tail}"
        try:
            known = own in sys.modules or importlib.util.find_spec(own) is not None
        except ModuleNotFoundError:
            known = False
        return alias_spec(fullname, own) if known else None

    @staticmethod
    def _inside(fullname):
        """What `from tensorflow.contrib.part import name` looks for if the part has no `name`."""
        if "." not in fullname[len(_OWN_CONTRIB):] and _is_file(fullname):
            return None
        name = fullname.replace("tremula.tf1", "tensorflow", 1)
        raise ImportError(missing.message(name), name=name)

    @staticmethod
    def _contrib(fullname, tail):
        for alias, module in _CONTRIB_ALIASES.items():
            if tail == alias or tail.startswith(alias + "."):
                if module == "tf_slim":
                    contrib_slim.package(fullname)
                return alias_spec(fullname, module + tail[len(alias):])
        # A part's functions were in files of their own, such as layers.python.layers.layers.
        part = tail.split(".")
        if len(part) > 2 and part[2] == "python":
            tail = ".".join(part[:2])
        own = f"tremula.tf1.{tail}"
        if own not in sys.modules and not (tail.count(".") < 2 and _is_file(own)):
            raise ImportError(missing.message(fullname), name=fullname)
        return alias_spec(fullname, own)


def _public_module(tail):
    """The name of the module that is tf.`tail`, or None. By the name of its file TensorFlow would
    make a second one."""
    value = sys.modules[_V1]
    for part in tail.split("."):
        value = getattr(value, part, None)
    name = getattr(value, "__name__", "") if isinstance(value, types.ModuleType) else ""
    inner = name.startswith(("tensorflow._api.", "tensorflow.python."))
    return name if inner and name in sys.modules else None


def _is_file(name):
    """Whether the part `name` of Tremula's own tf.contrib is a file."""
    return name == contrib.__name__ or PathFinder.find_spec(name, contrib.__path__) is not None


def _without_warnings(function):
    # disable_v2_behavior() warns that variables are not resources: as they were in TensorFlow 1.
    log = logging.getLogger("tensorflow")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        function()
    finally:
        log.setLevel(level)
