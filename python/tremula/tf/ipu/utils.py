"""Helpers around the IPU system (`tensorflow.python.ipu.utils`).

The functions of the first releases, which filled in an options object, are in legacy_config.py;
they fill in an IPUConfig now. All of them are shown here, as is the config module's API.
"""

from tremula import flags
from tremula.tf.inner import marks
from tremula.tf.ipu import devices
from tremula.tf.ipu.config import (DeviceConnectionType, ExecutionProfileType, IPUConfig, KeyId,
                                   MergeRemoteBuffersBehaviour, SchedulingAlgorithm,
                                   SelectionOrder, StochasticRoundingBehaviour,
                                   VerificationOptions, configure_ipu_system, get_ipu_config,
                                   reset_ipu_configuration, running_on_ipu_model)
from tremula.tf.ipu.events import (extract_all_events, extract_all_strings_from_event_trace,
                                   extract_all_types_from_event_trace, extract_compile_reports,
                                   extract_execute_reports, extract_poplar_serialized_graphs)
from tremula.tf.ipu.legacy_config import (auto_select_ipus, create_ipu_config, select_ipus,
                                          set_compilation_options, set_convolution_options,
                                          set_experimental_multi_replica_distribution_options,
                                          set_floating_point_behaviour_options, set_gcl_options,
                                          set_io_tile_options, set_ipu_connection_type,
                                          set_ipu_model_options, set_matmul_options,
                                          set_norm_options, set_optimization_options,
                                          set_pooling_options, set_recomputation_options,
                                          set_report_options, set_serialization_options,
                                          set_transfer_options, set_verification_options)
from tremula.tf.plugin.poplar.driver.config_pb2 import SyntheticDataCategory

# Functions of exporting.py, which needs TensorFlow.
_EXPORTING = (
    "export_dataset_to_file", "export_inputs_to_file", "export_variables_from_live_session",
    "export_variables_from_live_model", "import_data_in_live_session",
    "import_data_in_live_model",
)


def __getattr__(name):
    if name in _EXPORTING:
        from tremula.tf.ipu import exporting
        return getattr(exporting, name)
    raise AttributeError(f"module 'tensorflow.python.ipu.utils' has no attribute {name!r}")


def reset_ipu_seed(seed, device="/device:IPU:0", cpu_device="cpu",
                   experimental_identical_replicas=False):
    """Starts the random numbers of `device` again from the int `seed`, at once.

    `experimental_identical_replicas`: all replicas get the same numbers. `cpu_device` makes no
    difference. Raises ValueError if `device` is no IPU, TypeError for a seed that is no int.
    """
    del cpu_device
    from tremula.tf import runtime
    from tremula.tf.runtime.base import checks
    checks.integer("seed", seed)
    checks.boolean("experimental_identical_replicas", experimental_identical_replicas)
    runtime.reset_seed(seed, devices.ordinal(device), experimental_identical_replicas)


def get_num_of_ipus_in_device(ipu_device, device="cpu"):
    """How many IPUs the TensorFlow device `ipu_device` has, such as "/device:IPU:0".

    Without a configuration /device:IPU:0 has one. `device` makes no difference. Raises ValueError
    if there is no such device.
    """
    del device
    return devices.num_ipus(devices.ordinal(ipu_device))


def use_synthetic_data_for(synthetic_data_category):
    """Whether TF_POPLAR_FLAGS asks for synthetic data of a SyntheticDataCategory."""
    category = SyntheticDataCategory(synthetic_data_category).name.lower()
    return flags.uses_synthetic_data_for(category, flags.read())


def move_variable_initialization_to_cpu(graph=None):
    """Moves the operations that compute the initial values of `graph`'s variables to the CPU.

    `graph`: None for the default one. The variables stay where they are, and so does what reads
    one of them. Call it after the variables are made and before a session runs.
    """
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph() if graph is None else graph
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"move_variable_initialization_to_cpu takes a tf.Graph, not {graph!r}.")
    initializers = [variable.initializer for variable
                    in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)]
    # A strategy's variables have groups, of what is on the host already.
    waiting = [one.inputs[-1].op for one in initializers if one is not None and one.inputs]
    seen = set()
    while waiting:
        operation = waiting.pop()
        if operation in seen:
            continue
        seen.add(operation)
        if _touches_variable(operation):
            continue
        waiting += [value.op for value in operation.inputs] + list(operation.control_inputs)
        marks.set_operation_device(operation, "/device:CPU:0")
        marks.clear_operation_attribute(operation, "_class")  # may name a variable on the IPU
        marks.set_operation_attribute(operation, "_XlaCompile", False)
        marks.set_operation_attribute(operation, "_XlaScope", "")


def _touches_variable(operation):
    import tensorflow.compat.v1 as tf
    values = list(operation.inputs) + list(operation.outputs)
    return any(value.dtype == tf.resource or value.dtype._is_ref_dtype for value in values)
