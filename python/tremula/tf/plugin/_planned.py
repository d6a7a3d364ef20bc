"""The modules below `tensorflow.compiler.plugin` that this version of Tremula does not have yet."""

import tremula

# Package -> its modules.
PLANNED = {
    "poplar.driver": (
        "backend_config_pb2", "option_flag_pb2", "pipeline_config_pb2", "poplar_executable_pb2",
        "poplar_feed_config_pb2", "threestate_pb2"),
    "poplar.ops": (
        "gen_application_runtime", "gen_dataset_benchmark", "gen_dataset_exporters",
        "gen_dataset_ops", "gen_functional_ops", "gen_pop_datastream_ops", "gen_popfloat_ops",
        "gen_popnn_ops", "gen_popops_ops", "gen_poprand_ops", "gen_poputil_ops",
        "gen_sendrecv_ops"),
    "poplar": ("tests", "tools"),
}


def message(name):
    """Why the module `name` ("poplar.ops.gen_popnn_ops") cannot be had, or None where the original
    has no such module."""
    package, _, module = name.rpartition(".")
    if module not in PLANNED.get(package, ()):
        return None
    return (f"tensorflow.compiler.plugin.{name} is a part of the IPU API that Tremula "
            f"{tremula.__version__} does not have yet.")
