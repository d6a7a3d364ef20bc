"""The extension of subclasses of Keras' Model."""

from tremula.tf.keras.extensions import (
    config, extensions_base, model_building, pipeline_stage_assignment)

# SDK 2.5 and 2.6 have it here.
ModelLayerPipelineStageAssignment = pipeline_stage_assignment.ModelLayerPipelineStageAssignment


class ModelExtension(config.ModelConfig, model_building.ModelBuilding,
                     extensions_base.KerasExtensionBase):
    """The extension of an object of a subclass of Model in the scope of an IPUStrategy."""
