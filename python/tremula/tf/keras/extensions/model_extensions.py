"""The extension of subclasses of Keras' Model."""

from tremula.tf.keras.extensions import config, extensions_base, stage_assignments


class ModelExtension(config.ModelConfig, stage_assignments.ModelStages,
                     extensions_base.KerasExtensionBase):
    """What an object of a subclass of Model has in the scope of an IPUStrategy."""

    def _build_for_data(self, element_spec):
        """Makes the weights, for the first element of the data."""
