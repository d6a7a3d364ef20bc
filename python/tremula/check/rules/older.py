"""The API of older SDKs, with its newer form. Tremula runs both."""

import ast

from tremula.check.rules import Edit, column, rename_attribute, rename_keyword, rule

# Function -> what to write today.
_CONFIGURING = {
    "create_ipu_config": "config = ipu.config.IPUConfig()",
    "auto_select_ipus": "config.auto_select_ipus = N", "select_ipus": "config.select_ipus = N",
    "set_convolution_options": "config.convolutions.poplar_options = {...}",
    "set_matmul_options": "config.matmuls.poplar_options = {...}",
    "set_pooling_options": "config.pooling.poplar_options = {...}",
    "set_compilation_options": "config.compilation_poplar_options = {...}",
    "set_gcl_options": "config.gcl_poplar_options = {...}",
    "set_recomputation_options": "config.allow_recompute = True",
    "set_floating_point_behaviour_options": "config.floating_point_behaviour.*",
    "set_norm_options": "config.norms.use_stable_statistics = ...",
    "set_optimization_options": "config.optimizations.*",
    "set_ipu_model_options": "config.ipu_model.*",
    "set_io_tile_options": "config.io_tiles.*",
    "set_ipu_connection_type": "config.device_connection.*",
    "set_serialization_options": "config.serialization_output_folder = ...",
    "set_report_options": "POPLAR_ENGINE_OPTIONS",
    "set_experimental_multi_replica_distribution_options":
        "config.experimental.multi_replica_distribution.*",
}
_KERAS = {
    "ipu.keras.Model": "tf.keras.Model in an IPUStrategy's scope",
    "ipu.keras.Sequential": "tf.keras.Sequential in an IPUStrategy's scope",
    "ipu.keras.PipelineModel": "tf.keras.Model and set_pipelining_options()",
    "ipu.keras.PipelineSequential": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.keras.PipelinedModel": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.keras.SequentialPipelineModel": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.autoshard.automatic_sharding": "ipu.scopes.ipu_shard, or pipeline stages",
}


@rule(
    "older-api", "note", "A name of an older SDK",
    """The SDKs renamed and dropped parts of their API from release to release. Tremula runs them
    all; the last SDK, and who reads the program, know the newer form.""",
    "Write the newer form, which the message gives.",
    """
    from tensorflow.python import ipu

    options = ipu.utils.create_ipu_config()
    """,
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    """)
def older_api(project):
    for file, node in project.nodes(ast.Import, ast.ImportFrom):
        yield from _imported(file, node)
    for file, call, called in project.calls():
        name = called.rpartition(".")[2]
        if called.startswith("ipu.utils.") and name in _CONFIGURING:
            yield file, call.func, f"ipu.utils.{name} is today: {_CONFIGURING[name]}"
        elif called in _KERAS:
            yield file, call.func, f"{called} is today: {_KERAS[called]}"
        elif called == "ipu.function":
            yield file, call.func, "ipu.function is today ipu.outlined_function", \
                rename_attribute(file, call.func, "outlined_function") \
                if isinstance(call.func, ast.Attribute) else None
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "experimental_run_v2":
            yield file, call.func, "experimental_run_v2 is today run", \
                rename_attribute(file, call.func, "run")
        yield from _arguments(file, call, called)


def _arguments(file, call, called):
    for older, newer, where in (("experimental_compile", "jit_compile", "tf.function"),
                                ("pipeline_depth", "gradient_accumulation_count",
                                 "ipu.pipelining_ops.pipeline")):
        if called == where:
            for one in call.keywords:
                if one.arg == older:
                    yield file, one.value, f"{older}= is today {newer}=", \
                        rename_keyword(file, call, older, newer)


def _imported(file, node):
    """Imports of tensorflow.contrib.ipu."""
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    if not (name or "").startswith("tensorflow.contrib"):
        return
    is_package = isinstance(node, ast.ImportFrom) and name == "tensorflow.contrib" \
        and [one.name for one in node.names] == ["ipu"]
    if not is_package and not name.startswith("tensorflow.contrib.ipu"):
        return
    edit = None
    if is_package:
        start = column(file, node.lineno, node.col_offset) + len("from ")
        end = start + len(name)
        if file.lines[node.lineno - 1][start:end] == name:
            edit = Edit(file.path, node.lineno, start, node.lineno, end, "tensorflow.python")
    yield file, node, "tensorflow.contrib.ipu is today tensorflow.python.ipu", edit
