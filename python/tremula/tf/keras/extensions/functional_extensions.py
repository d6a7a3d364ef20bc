"""The extension of models of Keras' functional API."""

from tremula.tf.keras.extensions import config, extensions_base, stage_assignments


class FunctionalExtension(config.FunctionalConfig, stage_assignments.FunctionalStages,
                          extensions_base.KerasExtensionBase):
    """What a functional model has in the scope of an IPUStrategy."""

    def _build_for_data(self, element_spec):
        """Nothing: such a model has its weights."""
