"""The API of older SDKs, with its newer form. Tremula runs both."""

import ast

from tremula.check import names
from tremula.check.rules import Edit, column, remove_argument, rename_attribute, \
    rename_keyword, rule

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
_NEWER = {
    "ipu.keras.Model": "tf.keras.Model in an IPUStrategy's scope",
    "ipu.keras.Sequential": "tf.keras.Sequential in an IPUStrategy's scope",
    "ipu.keras.PipelineModel": "tf.keras.Model and set_pipelining_options()",
    "ipu.keras.PipelineSequential": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.keras.PipelinedModel": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.keras.SequentialPipelineModel": "tf.keras.Sequential and set_pipelining_options()",
    "ipu.autoshard.automatic_sharding": "ipu.scopes.ipu_shard, or pipeline stages",
    "ipu.autoshard.ipu_autoshard": "ipu.scopes.ipu_shard, or pipeline stages",
    "ipu.utils.extract_compile_reports": "a profile: POPLAR_ENGINE_OPTIONS and the module pva",
    "ipu.utils.extract_execute_reports": "a profile: POPLAR_ENGINE_OPTIONS and the module pva",
}
# Modules of ipu that went -> where what they had is.
_MOVED = {"rnn_ops": "ipu_tensorflow_addons.layers", "horovod": "ipu.distributed",
          "summary_ops": "a profile: POPLAR_ENGINE_OPTIONS and the module pva"}
_LAYERS = "ipu_tensorflow_addons.keras.layers"
_STILL_LAYERS = ("CaptureUpstreamGradients", "CaptureActivationGradients")
# (function, its argument, what it is called today)
_RENAMED = (("tf.function", "experimental_compile", "jit_compile"),
            ("ipu.pipelining_ops.pipeline", "pipeline_depth", "gradient_accumulation_count"),
            ("ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec", "pipeline_depth",
             "gradient_accumulation_count"))
# (function or method, the argument that it had, what to write)
_DROPPED = (
    ("ipu.ipu_run_config.IPURunConfig", "autosharding", ": use ipu_shard, or pipeline stages"),
    ("ipu.ipu_run_config.IPURunConfig", "compile_summary", ": read the profile"),
    ("fit", "steps_per_run", ": give steps_per_execution= to compile()"),
    ("evaluate", "steps_per_run", ": give steps_per_execution= to compile()"),
    ("predict", "steps_per_run", ": give steps_per_execution= to compile()"),
    ("ipu.ipu_infeed_queue.IPUInfeedQueue", "feed_name", ""),
    ("ipu.ipu_outfeed_queue.IPUOutfeedQueue", "feed_name", ""),
    ("ipu.ipu_infeed_queue.IPUInfeedQueue", "replication_factor", ""),
    ("ipu.ipu_infeed_queue.IPUInfeedQueue", "data_to_prefetch", ": use prefetch_depth="),
    ("ipu.ipu_outfeed_queue.IPUOutfeedQueue", "replication_factor", ""),
    ("ipu.ipu_outfeed_queue.IPUOutfeedQueue", "io_batch_size", ""),
    ("ipu.ipu_outfeed_queue.IPUOutfeedQueue", "outfeed_all", ": use outfeed_mode="))


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
    for file, node, name in project.named():
        last = name.rpartition(".")[2]
        if name.startswith("ipu.utils.") and last in _CONFIGURING:
            yield file, node, f"ipu.utils.{last} is today: {_CONFIGURING[last]}"
        elif name in _NEWER:
            yield file, node, f"{name} is today: {_NEWER[name]}"
        elif name.startswith("ipu.") and name.split(".")[1] in _MOVED and _is_of_ipu(file, node):
            yield file, node, _moved(name)
        elif name.startswith(("ipu.layers.", "ipu.keras.layers.")) and last[0].isupper() \
                and last not in _STILL_LAYERS:
            yield file, node, f"{name} is today {_LAYERS}.{last}"
        elif name == "ipu.function":
            yield file, node, "ipu.function is today ipu.outlined_function", \
                rename_attribute(file, node, "outlined_function") \
                if isinstance(node, ast.Attribute) else None
    for file, node in project.nodes(ast.Attribute):
        if node.attr == "experimental_run_v2":
            yield file, node, "experimental_run_v2 is today run", \
                rename_attribute(file, node, "run")
    for file, call, called in project.calls():
        yield from _arguments(file, call, called)


def _moved(name):
    newer = _MOVED[name.split(".")[1]]
    return f"{name} is today: {newer}" if ":" in newer else f"{name} is today in {newer}"


def _is_of_ipu(file, node):
    """Whether a name begins with the package itself: of what is imported from it the import
    tells."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return file.resolve(node) == "ipu"


def _arguments(file, call, called):
    for where, older, newer in _RENAMED:
        given = names.argument(call, older) if called == where else None
        if given is not None:
            yield file, given, f"{older}= is today {newer}=", \
                rename_keyword(file, call, older, newer)
    for where, older, instead in _DROPPED:
        given = names.argument(call, older) if called == where or isinstance(
            call.func, ast.Attribute) and call.func.attr == where else None
        if given is not None:
            yield (file, given, f"{older}= is no argument of {where.split('.')[-1]} today{instead}",
                   None if instead else remove_argument(file, call, older, [
                       name for other, name, newer in _DROPPED if other == where and not newer]))


def _imported(file, node):
    """Imports of tensorflow.contrib.ipu, and of modules that went."""
    for other, whole in file.imports:
        name = names.canonical(whole)
        if other is node and name.startswith("ipu.") and name.split(".")[1] in _MOVED:
            yield file, node, _moved(name)
            return
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
