"""The options of pipeline stages."""

from tremula.tf.plugin.poplar.driver import _messages, option_flag_pb2  # noqa: F401  (imported)

_messages.make(globals(), "pipeline_config.proto", imports=("option_flag.proto",), messages={
    "PipelineStagePoplarConfig": (
        "repeated PoplarOptionFlag convolution_options 1",
        "repeated PoplarOptionFlag matmul_options 2",
        "repeated PoplarOptionFlag slice_options 3"),
    "PipelinePoplarConfig": (
        "repeated PipelineStagePoplarConfig forward_stages 1",
        "repeated PipelineStagePoplarConfig backward_stages 2",
        "PipelineStagePoplarConfig resource_update 3")})
