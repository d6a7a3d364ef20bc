"""The one door to Keras 2: the package of a program's models, and its private modules.

The names are those of Keras 2.15; tf_keras has the same.
"""

import contextlib
import importlib

from tremula.tf.inner import versions


def package():
    """The name of the package with Keras 2: "keras" up to TensorFlow 2.15, "tf_keras" after that.
    Raises ImportError where there is none."""
    name = versions.keras_package()
    if name == "keras" and getattr(importlib.import_module("keras"), "__version__",
                                   "2").startswith("3"):
        if not versions.has_legacy_keras():
            raise ImportError("The IPU's part of Keras needs Keras 2. This TensorFlow comes with "
                              "Keras 3: install tf_keras.")
        name = "tf_keras"
    return name


def module(name):
    """A private module of Keras 2, such as "engine.base_layer"."""
    return importlib.import_module(f"{package()}.src.{name}")


def public(name=""):
    """A public module of Keras 2, such as "layers", or Keras itself."""
    return importlib.import_module(f"{package()}.{name}" if name else package())


def load_model(path):
    """The model in a file, read by Keras 2 or, where that cannot, by the newer Keras that is
    installed beside it. Raises what Keras 2 raises if neither can."""
    try:
        return public("models").load_model(path, compile=False)
    except Exception:
        newest = importlib.import_module("keras")
        if newest is public():
            raise
        with contextlib.suppress(Exception):
            return newest.models.load_model(path, compile=False)
        raise


def is_training(training):
    """`training`, or Keras' learning phase where it is None: a bool, or a tensor of one."""
    if training is None:
        training = module("backend").learning_phase()
    return bool(training) if isinstance(training, (bool, int)) else training


def choose(condition, first, second):
    """first() or second(), both in a condition if `condition` is a tensor without a value."""
    return module("utils.control_flow_util").smart_cond(condition, first, second)


def call_of(model, training):
    """A context manager in which layers are called as if the call() of `model` did it."""
    context = module("engine.base_layer_utils").call_context()
    try:
        return context.enter(model, inputs=None, build_graph=True, training=training)
    except TypeError:  # tf_keras of TensorFlow 2.17 and later
        return context.enter(model, inputs=None, build_graph=True,
                             call_context_args={"training": training})


def layer_class():
    """The class of all layers, and of models."""
    return module("engine.base_layer").Layer


def registered(cls):
    """Decorator: what is saved with the class can be loaded without `custom_objects`."""
    return public("utils").register_keras_serializable("ipu")(cls)


def saved_name(cls):
    """The name of a class in what is saved: that under which it is registered, else its own."""
    return module("saving.object_registration").get_registered_name(cls)


def saved_class(name, place):
    """The class with the name: one that is registered or among custom objects, else that of a
    public module of Keras, such as "layers"; None if there is none. A class is itself."""
    if isinstance(name, type):
        return name
    found = module("saving.object_registration").get_registered_object(name)
    return found or getattr(public(place), name, None)


def legacy_optimizer():
    """The base of the optimizers with slots, which those of Keras 2.6 are."""
    return module("optimizers.legacy.optimizer_v2").OptimizerV2


def to_legacy(optimizer):
    """`optimizer` as one with slots: itself, or one of the same name and configuration. Raises
    ValueError for anything else."""
    if isinstance(optimizer, legacy_optimizer()):
        return optimizer
    if isinstance(optimizer, module("optimizers.optimizer").Optimizer):
        return module("optimizers").convert_to_legacy_optimizer(optimizer)
    raise ValueError("Only Keras optimizers can be wrapped, but this is a "
                     f"{type(optimizer).__name__}.")
