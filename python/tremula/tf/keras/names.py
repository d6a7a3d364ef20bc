"""Names of Keras 2.6 and of TensorFlow 2.1's Keras that programs import, and where they are now.

The finder at the end of the import path looks here for modules that do not exist, and Keras' public
modules look here for names that they lack. TensorFlow keeps a frozen copy of Keras for itself,
`tensorflow.python.keras`, whose classes are not those of `tf.keras`. A program that takes a name
from it gets Keras' own; TensorFlow still gets the copy's.
"""

import importlib
import importlib.util
import sys
import threading

from tremula import _callers
from tremula.tf.inner import versions
from tremula.tf.keras import old_optimizers

FROZEN = "tensorflow.python.keras"
_PYTHON = "tensorflow.python"

_local = threading.local()

# The beginnings of the names.
ROOTS = ("keras", "tf_keras", "tensorflow.keras", FROZEN)

# Path in Keras 2.6 -> path in the private modules of 2.15. The longest that is a prefix counts;
# a path without an entry is looked for under its own name.
MOVED = {
    "combinations": "testing_infra.test_combinations",
    "distribute.sidecar_evaluator": "utils.sidecar_evaluator",
    "engine.network": "engine.functional",
    "initializers.initializers_v2": "initializers.initializers",
    "keras_parameterized": "testing_infra.test_combinations",
    "layers.advanced_activations": "layers.activation",
    "layers.convolutional_recurrent": "layers.rnn",
    "layers.cudnn_recurrent": "layers.rnn",
    "layers.dense_attention": "layers.attention",
    "layers.einsum_dense": "layers.core.einsum_dense",
    "layers.embeddings": "layers.core.embedding",
    "layers.gru_lstm_utils": "layers.rnn.gru_lstm_utils",
    "layers.legacy_rnn": "layers.rnn",
    "layers.legacy_rnn.rnn_cell_impl": "layers.rnn.legacy_cells",
    "layers.legacy_rnn.rnn_cell_wrapper_impl": "layers.rnn.legacy_cell_wrappers",
    "layers.local": "layers.locally_connected",
    "layers.merge": "layers.merging",
    "layers.multi_head_attention": "layers.attention.multi_head_attention",
    "layers.noise": "layers.regularization",
    "layers.normalization_v2": "layers.normalization.batch_normalization",
    "layers.recurrent": "layers.rnn",
    "layers.recurrent_v2": "layers.rnn",
    "layers.rnn_cell_wrapper_v2": "layers.rnn.cell_wrappers",
    "layers.wrappers": "layers.rnn",
    "mixed_precision.experimental": "mixed_precision",
    "optimizer_v1": "optimizers.optimizer_v1",
    "optimizer_v2": "optimizers.legacy",
    "optimizer_v2.learning_rate_schedule": "optimizers.schedules.learning_rate_schedule",
    "optimizer_v2.legacy_learning_rate_decay": "optimizers.legacy_learning_rate_decay",
    "optimizer_v2.utils": "optimizers.utils",
    "premade": "premade_models",
    **{f"preprocessing.{name}": f"utils.{name}"
       for name in ("dataset_utils", "image_dataset", "text_dataset")},
    "preprocessing.timeseries": "utils.timeseries_dataset",
    "saving.hdf5_format": "saving.legacy.hdf5_format",
    "saving.model_config": "saving.legacy.model_config",
    "saving.save": "saving.legacy.save",
    "saving.saved_model": "saving.legacy.saved_model",
    "saving.saving_utils": "saving.legacy.saving_utils",
    "testing_utils": "testing_infra.test_utils",
    "utils.all_utils": "utils",
}

# (Path in 2.15, name in Keras 2.6) -> name.
RENAMED = {
    **{(path, "set_policy"): "set_global_policy"
       for path in ("mixed_precision", "mixed_precision.policy")},
    **{("layers.convolutional", name): "Conv2DTranspose"
       for name in ("Deconv2D", "Deconvolution2D")},
    **{("layers.convolutional", name): "Conv3DTranspose"
       for name in ("Deconv3D", "Deconvolution3D")},
    ("engine.functional", "Network"): "Functional",
}

# Path in 2.15 -> paths in 2.15 of modules that have some of its names now.
DIVIDED = {
    "engine.base_layer": ("engine.input_spec",),
    "engine.base_layer_v1": ("engine.input_spec", "engine.node"),
    "engine.compile_utils": ("utils.losses_utils",),
    "layers.attention": ("layers.attention.base_dense_attention",),
    "layers.convolutional": ("layers.convolutional.base_conv",
                             "layers.convolutional.base_separable_conv"),
    "layers.core": ("layers.core.tf_op_layer",),
    "layers.locally_connected": ("layers.locally_connected.locally_connected_utils",),
    "layers.pooling": tuple(f"layers.pooling.base_{name}{rank}d"
                            for name in ("pooling", "global_pooling") for rank in (1, 2, 3)),
    "layers.preprocessing.category_encoding": ("layers.preprocessing.preprocessing_utils",),
    "layers.preprocessing.image_preprocessing": ("utils.image_utils",),
    "layers.rnn": tuple(f"layers.rnn.{name}" for name in (
        "lstm", "gru", "gru_lstm_utils", "dropout_rnn_cell_mixin", "base_conv_rnn",
        "base_conv_lstm", "legacy_cells")),
    "layers.rnn.legacy_cells": ("layers.rnn.legacy_cell_wrappers",),
    "legacy_tf_layers.base": ("engine.input_spec",),
    "metrics": ("metrics.base_metric",),
    "models": ("models.cloning",),
    "preprocessing.image": ("utils.image_utils",),
    "preprocessing.sequence": ("utils.data_utils",),
    "saving.legacy.saved_model.load": ("layers.rnn",),
    "utils.generic_utils": ("saving.object_registration", "saving.legacy.serialization"),
    "utils.vis_utils": ("utils.layer_utils",),
}

# Modules of Keras 2.6 that only TensorFlow's copy still has, and that need no class of its own.
_IN_COPY = ("mixed_precision.loss_scale", "saving.saved_model_experimental", "saving.utils_v1")

_IN_MOVED = {f"{MOVED[key.rpartition('.')[0]]}.{key.rpartition('.')[2]}": place
             for key, place in MOVED.items() if key.rpartition(".")[0] in MOVED}

# Modules of TensorFlow that moved with Keras or out of it.
TENSORFLOW = {
    "tensorflow.python.distribute.distribution_strategy_context":
        "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.saving.functional_saver":
        "tensorflow.python.checkpoint.functional_saver",
    "tensorflow.python.training.tracking": "tensorflow.python.trackable",
    **{f"tensorflow.python.data.experimental.ops.{_name}": "tensorflow.python.data.ops.options"
       for _name in ("distribute_options", "threading_options")},
    **{f"{_keras}.{_name}": f"{FROZEN}.{_name}"
       for _keras in ("keras", "tf_keras") for _name in _IN_COPY},
}
for _package in ("training.tracking", "trackable"):  # `from ...training.tracking import util`
    for _name, _place in (("base", "trackable.base"),
                          ("data_structures", "trackable.data_structures"),
                          ("graph_view", "checkpoint.graph_view"),
                          ("tracking", "trackable.autotrackable"),
                          ("util", "checkpoint.checkpoint")):
        TENSORFLOW[f"tensorflow.python.{_package}.{_name}"] = f"tensorflow.python.{_place}"

# Packages of `tensorflow.python` whose modules it showed itself; the first that has a name counts.
_SHOWN = ("framework", "ops", "eager", "platform", "util", "training")
# What it showed under another name than the module's.
_SHOWN_AS = {"bitwise": "ops.bitwise_ops", "distributions": "ops.distributions.distributions",
             "linalg": "ops.linalg.linalg", "logging": "platform.tf_logging",
             "losses": "ops.losses.losses", "signal": "ops.signal.signal",
             "train": "training.training"}

# Public modules of Keras that lack names which programs take from them.
_PUBLIC = ("activations", "backend", "callbacks", "constraints", "estimator", "initializers",
           "layers", "losses", "metrics", "mixed_precision", "models", "optimizers",
           "preprocessing", "preprocessing.image", "preprocessing.sequence", "regularizers",
           "saving", "utils",
           *(f"applications.{name}" for name in (
               "densenet", "efficientnet", "imagenet_utils", "inception_resnet_v2",
               "inception_v3", "mobilenet", "mobilenet_v2", "mobilenet_v3", "nasnet", "resnet",
               "resnet_v2", "vgg16", "vgg19", "xception")))


def resolve(fullname):
    """The module for a name that no module has, or None."""
    if fullname in TENSORFLOW:
        return TENSORFLOW[fullname]
    package, _, leaf = fullname.rpartition(".")
    if package == _PYTHON:
        places = [_SHOWN_AS[leaf]] if leaf in _SHOWN_AS else [f"{one}.{leaf}" for one in _SHOWN]
        return next(filter(None, (_existing(f"{_PYTHON}.{place}") for place in places)), None)
    asked = _local.__dict__.setdefault("asked", set())
    if fullname in asked:  # one place of Keras asks for another, which asks for the first
        return None
    asked.add(fullname)
    try:
        return _resolve(fullname)
    finally:
        asked.remove(fullname)


def _resolve(fullname):
    root = next((one for one in ROOTS if fullname.startswith(one + ".")), None)
    if root is None or not _callers.asked_by_program():
        return None
    path = fullname[len(root) + 1:]
    package = root if root in ("keras", "tf_keras") else versions.keras_package()
    if path.startswith("src."):
        # `from keras.optimizer_v2 import x` asks for x where optimizer_v2 is now.
        inside = _IN_MOVED.get(path[len("src."):])
        return f"{package}.src.{inside}" if inside else public(package, path[len("src."):])
    if path.startswith(("src", "api", "protobuf")):
        return None
    return private(package, path) or (public(package, path) if root == FROZEN else None)


def private(package, path):
    """The private module of a Keras that had the path `path` in Keras 2.6, or None."""
    if path.partition(".")[0] == "optimizer_v2":
        old_optimizers.prefer()
    head, tail = path, ""
    while head:
        if head in MOVED:
            path = MOVED[head] + tail
            break
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return _existing(f"{package}.src.{path}")


def public(package, path):
    """The public module of a Keras of a path, or None."""
    return _existing(f"{package}.{path}" if path else package)


def _existing(name):
    try:
        return name if name in sys.modules or importlib.util.find_spec(name) else None
    except (ImportError, ValueError):
        return None


# ---- Missing names of modules that exist ----

def install(watch):
    """Makes Keras' modules and TensorFlow's copy of them show these names. watch(name, function)
    calls function(module) for a module that is there, or as soon as it is."""
    watch(_PYTHON, _show_symbols)
    # `from tensorflow.keras.layers import Dense` makes another module of the files of tf.keras.
    watch("tensorflow.keras", lambda module: _complete(module, versions.keras_package(), ""))
    for package in ("keras", "tf_keras"):
        # Those of tf.keras, and of Keras by its own name.
        for root in (package, f"{package}.api._v2.keras", f"{package}.api._v1.keras"):
            watch(root, lambda module, package=package: _complete(module, package, ""))
        for name in _PUBLIC:
            watch(f"{package}.{name}",
                  lambda module, package=package, name=name: _complete(module, package, name))
        # A module with BatchNormalization in TensorFlow 2.1, and a package that shows nothing now.
        watch(f"{package}.src.layers.normalization",
              lambda module, package=package: _complete(module, package, "layers"))
        for path in sorted({path for path, _ in RENAMED} | set(DIVIDED)):
            watch(f"{package}.src.{path}",
                  lambda module, package=package, path=path: _complete(module, package, path))
        old_optimizers.install(watch, package)
        # `keras.optimizer_v2.learning_rate_schedule` as attributes.
        watch(f"{package}.src.optimizers.legacy",
              lambda module, package=package: _complete(module, package, "optimizer_v2"))
    for name in list(sys.modules):
        if name == FROZEN or name.startswith(FROZEN + "."):
            share(sys.modules[name])


def _show_symbols(module):
    """Makes `tensorflow.python` show the modules and symbols that it showed in TensorFlow 2.6."""
    before = vars(module).get("__getattr__")

    def get(name):
        if not name.startswith("__") and _callers.asked_by_program():
            inside = resolve(f"{_PYTHON}.{name}")
            if inside is not None:
                return importlib.import_module(inside)
            if hasattr(v1 := importlib.import_module("tensorflow.compat.v1"), name):
                return getattr(v1, name)
        if before is not None:
            return before(name)
        raise AttributeError(f"module {_PYTHON!r} has no attribute {name!r}")

    module.__getattr__ = get


def _complete(module, package, path):
    """Adds the names that a public module lacks."""
    before = vars(module).get("__getattr__")

    def get(name):
        if not name.startswith("__"):
            if not path and name == "ipu":
                return importlib.import_module("tremula.tf.keras")
            if _callers.asked_by_program():
                found = _lacking(package, path, name)
                if found is not None:
                    return found
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = get


def _lacking(package, path, name):
    """The object that a public module had under a name in Keras 2.6, or None."""
    inside = private(package, f"{path}.{name}" if path else name)
    if inside is not None:
        return importlib.import_module(inside)
    name = RENAMED.get((path, name), name)
    for place in (path, *DIVIDED.get(path, ())) if path else ():
        module = private(package, place)
        # Not getattr(): the module may be the one that is asked.
        found = vars(importlib.import_module(module)).get(name) if module else None
        if found is not None:
            return found
    return None


class _Shared(type(sys)):
    """A module of the copy: a program gets Keras' own where Keras has the name. Without TensorFlow
    2's behaviour, it gets the copy's, and Keras' own of what the copy has lost."""

    def __getattribute__(self, name):
        if name.startswith("_") or not _callers.asked_by_program():
            return super().__getattribute__(name)
        is_v2 = sys.modules.get("tensorflow.python.tf2")
        path = object.__getattribute__(self, "__name__")[len(FROZEN) + 1:]
        if is_v2 is not None and is_v2.enabled():
            found = _instead(path, name)
            return super().__getattribute__(name) if found is None else found
        try:
            return super().__getattribute__(name)
        except AttributeError:
            module = _existing(".".join(filter(None, (
                versions.keras_package(), "api._v1.keras", path))))
            found = getattr(importlib.import_module(module), name, None) if module else None
            if found is None:
                raise
            return found


def share(module):
    """Makes a module of TensorFlow's copy one that gives programs Keras' own names."""
    if type(module) is type(sys):
        module.__class__ = _Shared


def _instead(path, name):
    """Keras' object for a name of a module of the copy, or None."""
    package = versions.keras_package()
    if not path and name == "optimizers":
        return None  # the copy's, which is asked for its classes in its turn: those with slots
    if path == "optimizers":
        found = getattr(importlib.import_module(f"{package}.optimizers.legacy"), name, None)
        if found is not None:
            return found
    for place in (public(package, path), private(package, path) if path else None):
        module = importlib.import_module(place) if place else None
        if module is not None and not isinstance(module, _Shared):  # of _IN_COPY
            found = getattr(module, name, None)
            if found is not None:
                return found
    inside = f"{path}.{name}" if path else name
    inside = public(package, inside) or private(package, inside)
    return importlib.import_module(inside) if inside else None
