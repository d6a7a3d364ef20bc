"""Which classes of Keras are extended, and the methods that hand over to the extensions."""

import functools

from tremula.tf.inner import keras as inner
from tremula.tf.inner import patches
from tremula.tf.ipu import ipu_strategy, keras_extensions

_MODEL = ("build", "fit", "evaluate", "predict", "get_config", "_reset_compile_cache",
          "_assert_weights_created", "_trackable_children")


@functools.cache
def register():
    """Registers the extensions for every strategy. The first class that fits counts."""
    from tremula.tf.keras.extensions import (functional_extensions, model_extensions,
                                             sequential_extensions)
    sequential = inner.module("engine.sequential").Sequential
    functional = inner.module("engine.functional").Functional
    model = inner.module("engine.training").Model
    for owner, names in ((model, _MODEL), (functional, ("get_config",)),
                         (sequential, ("add", "pop", "get_config"))):
        patches.wrap_keras_methods(owner, [name for name in names if name in vars(owner)],
                                   keras_extensions.extension_delegate)
    patches.wrap_keras_methods(functional, ["_init_graph_network"], _then_take_stages)
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


def _taking_ipu_strategies(create):
    """BackupAndRestore has a list of the strategies that it takes."""
    def create_and_add(self, *arguments, **keywords):
        create(self, *arguments, **keywords)
        self._supported_strategies += (ipu_strategy.IPUStrategyV1,)
    return create_and_add
