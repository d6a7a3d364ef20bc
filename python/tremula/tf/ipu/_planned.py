"""The modules of the original's API that this version of Tremula does not have yet.

A module that lands needs no change here: what exists is found first.
"""

import tremula

# What a group of modules is for -> the modules, as they are named below `tensorflow.python.ipu`.
PLANNED = {
    "Estimators": (
        "ipu_estimator", "ipu_pipeline_estimator", "ipu_run_config", "ipu_session_run_hooks"),
    "pipelining": ("pipelining_ops", "pipelining_ops_grad"),
    "recurrent layers": ("rnn_ops", "rnn_ops_grad"),
    "optimizers": (
        "automatic_loss_scaling_optimizer", "cross_replica_optimizer",
        "gradient_accumulation_optimizer", "gradient_accumulation", "ipu_optimizer",
        "map_gradient_optimizer", "sharded_optimizer", "optimizers"),
    "operations on replicas": (
        "all_to_all_op", "all_to_all_op_grad", "cross_replica_ops", "cross_replica_ops_grad",
        "reduce_scatter_op", "replication_ops", "within_replica_ops", "within_replica_ops_grad"),
    "operations": (
        "control_flow_ops", "control_flow_ops_grad", "custom_ops", "embedding_ops",
        "embedding_ops_grad", "f8_ops", "functional_ops", "functional_ops_grad", "grad_util_ops",
        "grad_util_ops_grad", "image_ops", "internal_ops", "internal_ops_grad", "math_ops",
        "nn_ops", "nn_ops_grad", "normalization_ops", "normalization_ops_grad", "op_util",
        "popfloat_cast_to_gfloat", "rand_ops", "rand_ops_grad", "slicing_ops", "slicing_ops_grad",
        "statistics_ops", "summary_ops", "vertex_edsl", "experimental"),
    "automatic sharding": ("autoshard", "autoshard_cnn"),
    "loops and compilation": ("ipu_compiler", "loops"),
    "feeds": ("ipu_infeed_queue", "ipu_outfeed_queue"),
    "datasets": ("data", "dataset_benchmark", "dataset_extractor"),
    "exporting and serving": ("serving", "embedded_runtime", "application_compile_op"),
    "test helpers": ("test_utils",),
}

# Functions that the original's `__init__` shows -> the module that has them.
FUNCTIONS = {
    "outlined_function": "functional_ops",
    "function": "functional_ops",
}

_GROUP = {module: group for group, modules in PLANNED.items() for module in modules}


def names():
    """The names of all planned modules, sorted."""
    return sorted(_GROUP)


def message(name):
    """Why `name` ("rnn_ops", "ops.rnn_ops", "keras.layers") cannot be had, or None where the
    original has no such module either."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in ("ops", "optimizers", "experimental"):
        parts = parts[1:]
    group = _GROUP.get(parts[0])
    if group is None:
        return None
    return (f"tensorflow.python.ipu.{name} is a part of the IPU API ({group}) that Tremula "
            f"{tremula.__version__} does not have yet.")
