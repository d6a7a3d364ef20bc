"""The extended classes of Keras, and the methods that call the extensions."""

import functools

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.inner import patches
from tremula.tf.ipu import ipu_strategy, keras_extensions

_MODEL = ("build", "fit", "evaluate", "predict", "_reset_compile_cache",
          "_assert_weights_created", "_trackable_children")


@functools.cache
def register():
    """Registers the extensions for every strategy. The first class that fits counts."""
    from tremula.tf.keras.extensions import (config, functional_extensions, model_extensions,
                                             sequential_extensions)
    sequential = inner.module("engine.sequential").Sequential
    functional = inner.module("engine.functional").Functional
    model = inner.module("engine.training").Model
    for owner, names in ((model, _MODEL), (functional, ("get_config",)),
                         (sequential, ("add", "pop", "build", "get_config"))):
        patches.wrap_keras_methods(owner, [name for name in names if name in vars(owner)],
                                   keras_extensions.extension_delegate)
    patches.wrap_keras_methods(functional, ["_init_graph_network"], _then_take_stages)
    patches.wrap_keras_methods(model, ["get_config"], _delegate_of_subclasses)
    patches.wrap_keras_methods(model, ["compile"], _taking_a_tensor_of_steps)
    for owner in (model, sequential):
        patches.wrap_keras_class_methods(owner, ["from_config"], config.make_from_config)
    patches.wrap_keras_saving(inner.module, {
        "_reconstruct_model": config.make_reconstruct, "finalize_objects": config.make_finalize,
        "_revive_layer_or_model_from_config": config.make_revive,
        "revive_custom_object": config.make_revive_custom,
        "_clone_functional_model": config.make_clone, "_clone_sequential_model": config.make_clone,
        "get_registered_name": config.make_registered_name})
    patches.wrap_keras_methods(inner.module("callbacks").BackupAndRestore, ["__init__"],
                               _taking_ipu_strategies)
    manager = keras_extensions._extensions_manager
    for cls, extension in ((sequential, sequential_extensions.SequentialExtension),
                           (functional, functional_extensions.FunctionalExtension),
                           (model, model_extensions.ModelExtension)):
        manager._register_extension(cls, keras_extensions.KerasExtension, extension)


def _then_take_stages(initialize):
    def initialize_and_take(self, *arguments, **keywords):
        initialize(self, *arguments, **keywords)
        keras_extensions.extension_delegate_if_exists("get_pipelining_from_nodes", self)
    return initialize_and_take


def _delegate_of_subclasses(get_config):
    """Sequential.get_config() calls that of Model, and has handed over by then."""
    delegating = keras_extensions.extension_delegate(get_config)
    functional = inner.module("engine.functional").Functional

    def get_config_of(self, **keywords):
        return (get_config if isinstance(self, functional) else delegating)(self, **keywords)

    get_config_of.__original_func__ = get_config
    return get_config_of


def _taking_a_tensor_of_steps(compile_model):
    """Keras 2.15 compares `steps_per_execution` with "auto", which a tensor of a number, such as
    dataset.cardinality(), cannot be."""
    @functools.wraps(compile_model)
    def compile_with_number(self, *arguments, **keywords):
        steps = keywords.get("steps_per_execution")
        if isinstance(self, keras_extensions.KerasExtension) and tf.is_tensor(steps):
            keywords["steps_per_execution"] = int(steps)
        return compile_model(self, *arguments, **keywords)

    return compile_with_number


def _taking_ipu_strategies(create):
    """BackupAndRestore has a list of the strategies that it takes."""
    def create_and_add(self, *arguments, **keywords):
        create(self, *arguments, **keywords)
        self._supported_strategies += (ipu_strategy.IPUStrategyV1,)
    return create_and_add
