"""`tensorflow.python.ipu.keras.pipeline`."""

from tremula.tf.keras.models.pipeline import (
    PipelinedModel, PipelineModel, PipelineSequential, PipelineStage, SequentialPipelineModel)

__all__ = ["PipelineModel", "PipelineSequential", "PipelineStage", "PipelinedModel",
           "SequentialPipelineModel"]
