"""Operations of the original's generated modules that have no function here, and what does their
work instead."""

# Module -> {operation: what to use}.
INSTEAD = {
    "gen_application_runtime": {
        "ipu_application_compile": "ipu.application_compile_op",
    },
    "gen_dataset_ops": {
        "buffer_dataset": "ipu.data.ops.dataset_ops.BufferDataset",
    },
    "gen_dataset_benchmark": {
        "dataset_benchmark": "ipu.dataset_benchmark",
    },
    "gen_dataset_exporters": {
        "dataset_extractor": "ipu.dataset_extractor.dataset_extractor()",
        "variables_exporter": "ipu.dataset_extractor.export_variables()",
        "variables_importer": "ipu.dataset_extractor.import_variables()",
        "resource_to_handle_name": "ipu.dataset_extractor.get_variable_handles()",
    },
    "gen_pop_datastream_ops": {
        "dataset_benchmark": "ipu.dataset_benchmark",
        "dataset_extractor": "ipu.dataset_extractor.dataset_extractor()",
        "variables_exporter": "ipu.dataset_extractor.export_variables()",
        "variables_importer": "ipu.dataset_extractor.import_variables()",
        "resource_to_handle_name": "ipu.dataset_extractor.get_variable_handles()",
    },
    "gen_functional_ops": {
        "function": "ipu.outlined_function",
        "multi_conv": "ipu.nn_ops.multi_conv()",
        "pipeline": "ipu.pipelining_ops.pipeline()",
        "pipeline_stage": "ipu.pipelining_ops.pipeline()",
        "pipeline_stage_backward": "ipu.pipelining_ops.pipeline()",
        "resource_update": "a gradient accumulation optimizer of ipu.optimizers",
    },
    "gen_poputil_ops": {
        "codelet_expression_op": "an expression of TensorFlow's operations",
        "ipu_user_op": "ipu.custom_ops.precompiled_user_op()",
        "ipu_user_read_write_op": "ipu.custom_ops.cpu_user_operation()",
    },
    "host_compute_ops": {
        "xla_host_compute": "ipu.scopes.outside_compilation_scope()",
        "xla_send_to_host": "ipu.scopes.outside_compilation_scope()",
    },
}


def attribute(module, name):
    """What the `__getattr__` of a generated module does: raises AttributeError with the reason."""
    module = module.rpartition(".")[2]
    instead = INSTEAD.get(module, {}).get(name)
    if instead is None:
        raise AttributeError(f"module 'tensorflow.compiler.plugin.poplar.ops.{module}' has no "
                             f"attribute {name!r}")
    raise AttributeError(f"{module}.{name} is an inner operation of the original that Tremula "
                         f"does not have: use {instead}.")
