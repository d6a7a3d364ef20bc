"""Keras 2 and 3."""

import functools

from tremula.tf.inner.patches.wrapping import wrap


def after_keras_layers(base_layer, do):
    """Calls do(layer) at the end of the base constructor of every layer: models are extended there,
    and Keras has no hook. `base_layer` is the module of Keras 2's layers."""
    def make_telling(create):
        def create_and_tell(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            do(self)
        return create_and_tell

    wrap(base_layer.Layer, "__init__", make_telling)


def wrap_keras_methods(owner, names, make):
    """Puts make(method) in the place of methods of a class of Keras 2, under their names and with
    their signatures, which Keras inspects."""
    for name in names:
        wrap(owner, name, make)


def wrap_keras_class_methods(owner, names, make):
    """The same for class methods: make(function of the class and the arguments)."""
    for name in names:
        before = vars(owner)[name].__func__
        setattr(owner, name, classmethod(functools.wraps(before)(make(before))))


def wrap_keras_saving(module, make):
    """Puts make[name](what is there) in the place of functions and methods by which Keras 2 loads
    SavedModels, clones models and names classes; `module(name)` is a private module of Keras. They
    know nothing of extended classes, and no method of a model is called there."""
    loading = module("saving.legacy.saved_model.load")
    loader = loading.KerasObjectLoader
    cloning, registration = module("models.cloning"), module("saving.object_registration")
    for owner, name in ((loader, "_reconstruct_model"), (loader, "finalize_objects"),
                        (loader, "_revive_layer_or_model_from_config"),
                        (loading, "revive_custom_object"),
                        (cloning, "_clone_functional_model"),
                        (cloning, "_clone_sequential_model"),
                        (registration, "get_registered_name")):
        wrap(owner, name, make[name])


def show_in_keras(module, names):
    """Gives a private module of Keras names that the original's has, {name: value}."""
    for name, value in names.items():
        setattr(module, name, value)
