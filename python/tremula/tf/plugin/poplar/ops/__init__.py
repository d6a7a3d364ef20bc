"""The original's generated modules of operations that programs import by name.

Only gen_ipu_ops is here; the others say that they are not there yet.
"""

import tremula

PLANNED = (
    "gen_application_runtime", "gen_dataset_benchmark", "gen_dataset_exporters",
    "gen_dataset_ops", "gen_functional_ops", "gen_pop_datastream_ops", "gen_popfloat_ops",
    "gen_popnn_ops", "gen_popops_ops", "gen_poprand_ops", "gen_poputil_ops", "gen_sendrecv_ops",
)


def message(name):
    """Why the module `name` cannot be had, or None where the original has no such module."""
    if name not in PLANNED:
        return None
    return (f"tensorflow.compiler.plugin.poplar.ops.{name} is a part of the IPU API that Tremula "
            f"{tremula.__version__} does not have yet.")
