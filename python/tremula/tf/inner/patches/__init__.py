"""Everything that Tremula changes in TensorFlow: the only folder whose files set attributes of its
modules and classes.

Each function makes one change, once for the process, and says why. The caller gives the new
behaviour; the function knows the place in TensorFlow. Every change holds for TensorFlow 2.15.1 and
2.21.0, if its function does not say otherwise.
"""

from tremula.tf.inner.patches.gradients import wrap_gradients, wrap_tape_gradients
from tremula.tf.inner.patches.graphs import (accept_old_collective_keys, after_new_graph,
                                             compile_xla_on_ipus, inherit_graph_attributes,
                                             leave_dependencies_unmarked, leave_unconverted,
                                             order_freely, prefer_cpu, put_errors_first)
from tremula.tf.inner.patches.keras import (after_keras_layers, show_in_keras,
                                            wrap_keras_class_methods, wrap_keras_methods,
                                            wrap_keras_saving)
from tremula.tf.inner.patches.names import (accept_half_batch_norm, keep_half_batch_norm_parameters,
                                            restore_initialized_value, restore_moved_names)
from tremula.tf.inner.patches.running import (before_eager_operations, forget_session,
                                              wrap_function_calls, wrap_session)
from tremula.tf.inner.patches.standing_in import (build_for_programs, count_elements,
                                                  keep_to_what_lowers,
                                                  note_layers, replace_eager_gradients,
                                                  replace_monitored_sessions,
                                                  replace_session_runs, stand_in_for_data_sets,
                                                  start_no_queues, wrap_calls_from_python,
                                                  wrap_estimators, wrap_loading, wrap_models,
                                                  write_nothing)
from tremula.tf.inner.patches.tensorflow1 import (accept_float_dimensions, answer_version,
                                                  count_resources_as_variables, restore_app_flags,
                                                  restore_data_statistics, restore_keras_modules,
                                                  restore_layer_classes, restore_scalar_shape,
                                                  silence_deprecations)
from tremula.tf.inner.patches.tensorflow2 import (answer_shapes_at_once, gather_from_values,
                                                  loop_over_iterators, wrap_dataset_iterators,
                                                  wrap_function_traces, wrap_traced_functions)
from tremula.tf.inner.patches.tests import add_test_methods

__all__ = [
    "accept_float_dimensions", "accept_half_batch_norm", "accept_old_collective_keys",
    "add_test_methods", "after_keras_layers", "after_new_graph", "answer_shapes_at_once",
    "answer_version", "before_eager_operations", "build_for_programs", "compile_xla_on_ipus",
    "count_elements", "count_resources_as_variables", "forget_session", "gather_from_values",
    "inherit_graph_attributes", "keep_half_batch_norm_parameters", "keep_to_what_lowers",
    "leave_dependencies_unmarked", "leave_unconverted", "loop_over_iterators", "note_layers",
    "order_freely", "prefer_cpu", "put_errors_first", "replace_eager_gradients",
    "replace_monitored_sessions", "replace_session_runs", "restore_app_flags",
    "restore_data_statistics", "restore_initialized_value", "restore_keras_modules",
    "restore_layer_classes", "restore_moved_names", "restore_scalar_shape", "show_in_keras",
    "silence_deprecations", "stand_in_for_data_sets", "start_no_queues",
    "wrap_calls_from_python", "wrap_dataset_iterators", "wrap_estimators",
    "wrap_function_calls", "wrap_function_traces", "wrap_gradients", "wrap_keras_class_methods",
    "wrap_keras_methods", "wrap_keras_saving", "wrap_loading", "wrap_models", "wrap_session",
    "wrap_tape_gradients", "wrap_traced_functions", "write_nothing",
]
