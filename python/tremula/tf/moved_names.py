"""Names of TensorFlow's inner modules that programs import and that later versions moved.

Only what is missing is added, and it is the same object as at its new place.
"""

import importlib
import sys

# Module -> {name: where it is now, as "module:name"}.
_MOVED = {
    "tensorflow.python.ops.control_flow_ops": {
        "cond": "tensorflow.python.ops.cond:cond",
        "while_loop": "tensorflow.python.ops.while_loop:while_loop",
        "case": "tensorflow.python.ops.control_flow_case:case",
        "switch_case": "tensorflow.python.ops.control_flow_switch_case:switch_case",
        "Assert": "tensorflow.python.ops.control_flow_assert:Assert",
    },
    "tensorflow.python.ops.array_ops": {
        "stack": "tensorflow.python.ops.array_ops_stack:stack",
        "unstack": "tensorflow.python.ops.array_ops_stack:unstack",
    },
    "tensorflow.python.eager.function": {
        "defun": "tensorflow.python.eager.def_function:function",
    },
    "tensorflow.python.framework.graph_util": {
        "convert_variables_to_constants":
            "tensorflow.compat.v1.graph_util:convert_variables_to_constants",
    },
    "tensorflow.python.framework.graph_util_impl": {
        "convert_variables_to_constants":
            "tensorflow.compat.v1.graph_util:convert_variables_to_constants",
    },
    "tensorflow.python.framework.ops": {
        "Tensor": "tensorflow.python.framework.tensor:Tensor",
        "register_tensor_conversion_function": "tensorflow.python.framework."
        "tensor_conversion_registry:register_tensor_conversion_function",
        **{name: f"tensorflow.python.framework.indexed_slices:{name}" for name in (
            "IndexedSlices", "IndexedSlicesValue", "convert_to_tensor_or_indexed_slices")},
    },
    "tensorflow.python.ops.functional_ops": {
        "map_fn": "tensorflow.python.ops.map_fn:map_fn",
    },
    "tensorflow.python.ops.nn": {
        name: f"tensorflow.compat.v1.nn:{name}" for name in (
            "rnn_cell", "dynamic_rnn", "bidirectional_dynamic_rnn", "static_rnn", "raw_rnn",
            "static_bidirectional_rnn", "static_state_saving_rnn")
    },
    "tensorflow.python.ops.variables": {
        "VariableV1": "tensorflow.compat.v1:Variable",
        "is_variable_initialized": "tensorflow.compat.v1:is_variable_initialized",
    },
    "tensorflow.python.pywrap_tensorflow": {
        "NewCheckpointReader": "tensorflow.compat.v1.train:NewCheckpointReader",
    },
    "tensorflow.python.util.nest": {
        "is_sequence": "tensorflow.python.util.nest:is_nested",
    },
    # TensorFlow looks for these in a package of Keras that is elsewhere.
    "tensorflow.python.layers.normalization": {
        name: f"tensorflow.compat.v1.layers:{name}"
        for name in ("BatchNormalization", "batch_normalization")
    },
}


def restore():
    """Gives modules of TensorFlow the names again; each is looked up when it is first used."""
    for name, moved in _MOVED.items():
        module = sys.modules.get(name) or importlib.import_module(name)
        missing = {one: place for one, place in moved.items() if one not in vars(module)}
        if missing and not hasattr(vars(module).get("__getattr__"), "_tremula_moved"):
            module.__getattr__ = _getter(module, missing)


def _getter(module, missing):
    before = vars(module).get("__getattr__")

    def get(name):
        if name in missing:
            place, _, attribute = missing[name].partition(":")
            value = getattr(importlib.import_module(place), attribute)
            setattr(module, name, value)
            return value
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    get._tremula_moved = True
    return get
