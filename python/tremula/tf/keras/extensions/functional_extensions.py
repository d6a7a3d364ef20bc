"""The extension of models of Keras' functional API."""

from tremula.tf.keras.extensions import (
    config, extensions_base, pipeline_stage_assignment, stage_assignments)

# SDK 2.2 to 2.6 have them here.
PipelineStage = pipeline_stage_assignment.PipelineStage
FunctionalLayerPipelineStageAssignment = (
    pipeline_stage_assignment.FunctionalLayerPipelineStageAssignment)


class FunctionalExtension(config.FunctionalConfig, stage_assignments.FunctionalStages,
                          extensions_base.KerasExtensionBase):
    """The extension of a functional model in the scope of an IPUStrategy."""

    def _build_for_data(self, element_spec):
        """Does nothing: such a model has its weights."""
