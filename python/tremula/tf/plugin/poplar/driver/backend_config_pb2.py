"""What the original keeps with an instruction of a program: enums and PoplarBackendConfig, without
the parts that are XLA's own."""

from tremula.tf.plugin.poplar.driver import (_messages, option_flag_pb2,  # noqa: F401  (imported)
                                             threestate_pb2)

_CONFIG = "PoplarBackendConfig"
_CALL = f"{_CONFIG}.CallConfig"

_messages.make(
    globals(), "backend_config.proto", imports=("option_flag.proto", "threestate.proto"),
    messages={
        _CONFIG: (
            f"{_CONFIG}.FusionConfig fusion_config 1", f"{_CALL} call_config 2",
            "bool is_inplace 3", "int64 hash_of_custom_attributes 4",
            "enum ThreeState stochastic_rounding 5", "enum MLType ml_type 6",
            "int32 partials_type 7", "repeated PoplarOptionFlag convolution_options 8",
            "repeated PoplarOptionFlag matmul_options 9", "enum Tileset tileset 10"),
        f"{_CONFIG}.FusionConfig": (
            "int64 feature_group_count 3", "int64 batch_group_count 4",
            "repeated int64 inplace_operands 5"),
        _CALL: (
            f"enum {_CALL}.Type type 1", f"{_CALL}.RepeatConfig repeat_config 3",
            f"{_CALL}.PipelineStageConfig pipeline_stage_config 4",
            f"{_CALL}.PipelineConfig pipeline_config 5",
            f"{_CALL}.FunctionConfig function_config 6",
            f"{_CALL}.ResourceUpdateConfig resource_update_config 7"),
        f"{_CALL}.RepeatConfig": (
            "int64 repeat_count 1", "bool allow_finer_alias_analysis 2"),
        f"{_CALL}.PipelineStageConfig": ("int64 stage_id 1",),
        f"{_CALL}.PipelineConfig": (
            "int64 gradient_accumulation_count 1", "int64 batch_serialization_iterations 2",
            "int64 repeat_count 3", f"enum {_CALL}.PipelineConfig.Schedule schedule 4",
            "enum ThreeState offload_activations 5",
            "enum ThreeState offload_gradient_accumulation_buffers 6",
            "enum ThreeState partition_variables 7", "enum ThreeState offload_variables 8",
            f"enum {_CALL}.PipelineConfig.RecomputationMode recomputation_mode 9"),
        f"{_CALL}.FunctionConfig": (
            "bool keep_input_layouts 1", "bool unique_sharding 2",
            "int64 num_modified_remote_buffer_inputs 3",
            "int64 num_unmodified_remote_buffer_inputs 4"),
        f"{_CALL}.ResourceUpdateConfig": (
            "int64 num_batches_to_accumulate 1", "enum ThreeState offload_variables 2",
            "enum ThreeState partition_offloaded_variables 3")},
    enums={
        "FrontendAttributeId": (
            "STOCHASTIC_ROUNDING", "CALL_CONFIG_TYPE", "PARTIALS_TYPE",
            "GRADIENT_ACCUMULATION_COUNT", "PIPELINE_STAGE_ID", "PIPELINE_REPEAT_COUNT",
            "PIPELINE_SCHEDULE", "PIPELINE_POPLAR_CONFIG", "OFFLOAD_WEIGHT_UPDATE_VARIABLES",
            "NUM_BATCHES_TO_ACCUMULATE", "ML_TYPE", "OPTION_FLAGS",
            "PIPELINE_BATCH_SERIALIZATION_ITERATIONS",
            "PARTITION_OFFLOADED_WEIGHT_UPDATE_VARIABLES", "OFFLOAD_ACTIVATIONS",
            "OFFLOAD_GRADIENT_ACCUMULATION_BUFFERS", "PARTITION_VARIABLES", "OFFLOAD_VARIABLES",
            "RECOMPUTATION_MODE", "UNIQUE_SHARDING", "KEEP_INPUT_LAYOUTS"),
        "MLType": ("NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"),
        "ConvType": ("Conv", "ConvWithReverse", "DepthwiseConv", "DepthwiseFilter"),
        "Tileset": ("TILESET_COMPUTE_TILES", "TILESET_IO_TILES"),
        f"{_CALL}.Type": (
            "Call", "RepeatLoop", "PipelineStage", "PipelineStageBackward", "Pipeline",
            "PipelineStageRecomputation", "ResourceUpdate", "Function", "MultiConv"),
        f"{_CALL}.PipelineConfig.Schedule": ("Grouped", "Interleaved", "Sequential"),
        f"{_CALL}.PipelineConfig.RecomputationMode": (
            "Auto", "Recompute_then_backpropagate", "Recompute_and_backpropagate_interleaved")})
