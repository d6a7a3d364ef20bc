"""Keras on IPUs: `keras.ipu` (also `tf.keras.ipu` and `tf_keras.ipu`), and
`tensorflow.python.ipu.keras` of the earlier releases: one package with the names of both.

Modules and names are imported when they are first named.
"""

from tremula.tf.keras import lazy

__ipu__built__ = "1"

_STAGES = "extensions.pipeline_stage_assignment"

# Name -> the module that has it.
_NAMES = {
    "CTCLoss": "losses",
    **{name: _STAGES for name in (
        "PipelineStage", "ModelLayerPipelineStageAssignment",
        "FunctionalLayerPipelineStageAssignment", "SequentialLayerPipelineStageAssignment",
        "NestedModelPipelineStageAssignment", "FunctionalNestedModelPipelineStageAssignment",
        "SequentialNestedModelPipelineStageAssignment")},
    "ReplicatedMetricReductionMethod": "extensions.extensions_base",
    "FunctionalExtension": "extensions.functional_extensions",
    "SequentialExtension": "extensions.sequential_extensions",
    "ModelExtension": "extensions.model_extensions",
    "Model": "models.model",
    "Sequential": "models.model",
    "PipelineModel": "models.pipeline",
    "PipelineSequential": "models.pipeline",
    "PipelinedModel": "models.pipeline",
    "SequentialPipelineModel": "models.pipeline",
}

_MODULES = ("extensions", "layer_replacement", "layers", "losses", "model", "optimizers",
            "pipeline")

__all__ = sorted({*_NAMES, *_MODULES})  # noqa: PLE0605

__getattr__, __dir__ = lazy.names(__name__, _NAMES, _MODULES)
