"""The extension of subclasses of Keras' Model."""

from tremula.tf.keras.extensions import config, extensions_base, model_building


class ModelExtension(config.ModelConfig, model_building.ModelBuilding,
                     extensions_base.KerasExtensionBase):
    """What an object of a subclass of Model has in the scope of an IPUStrategy."""
