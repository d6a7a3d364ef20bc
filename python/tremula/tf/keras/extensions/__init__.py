"""How models that are made in the scope of an IPUStrategy fit, evaluate and predict on IPUs
(`keras.ipu.extensions`).

    register_extensions   the extended classes, and Keras' methods that call the extensions
    extensions_base       fit, evaluate and predict
    executions            the loop over epochs, and the callbacks of their steps
    options               the methods set_..._options()
    data_adapter          steps of an epoch, from the data that Keras takes
    step_functions        the compiled functions of models that are no pipelines
    data_feed_manager     the queues of a model
    pipeline_stage_assignment, stage_assignments, stage_summary   the stages of a model's layers
    pipeline_graph        the calls of layers in a pipeline
    pipeline_functions    the compiled functions of pipelines
    polling_thread        callbacks after each step, while the program runs
    config                options and stages in get_config(), and models made from it
    exporting             SavedModels for TensorFlow Serving
    messages              the texts of errors and of the log
"""

from tremula.tf.keras import lazy

_NAMES = {
    "ModelExtension": "model_extensions",
    "FunctionalExtension": "functional_extensions",
    "SequentialExtension": "sequential_extensions",
    **{name: "pipeline_stage_assignment" for name in (
        "PipelineStage", "ModelLayerPipelineStageAssignment",
        "FunctionalLayerPipelineStageAssignment", "SequentialLayerPipelineStageAssignment",
        "NestedModelPipelineStageAssignment", "FunctionalNestedModelPipelineStageAssignment",
        "SequentialNestedModelPipelineStageAssignment")},
    "ReplicatedMetricReductionMethod": "extensions_base",
}

_MODULES = (
    "data_adapter", "data_feed_manager", "extensions_base", "extensions_util",
    "functional_extensions", "keras_extension_base", "model_extensions",
    "pipeline_stage_assignment", "polling_thread", "register_extensions",
    "sequential_extensions")

__all__ = sorted(_NAMES)  # noqa: PLE0605

__getattr__, __dir__ = lazy.names(__name__, _NAMES, _MODULES)
