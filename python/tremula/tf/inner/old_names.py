"""Names that TensorFlow 1 and earlier versions of TensorFlow 2 had in private modules, and where
they are now: what patches/ puts back."""

# Module -> {name: where it is now, as "module:name"}.
MOVED = {
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
        **{name: f"tensorflow.python.framework.tensor_conversion:{name}" for name in (
            "convert_to_tensor_v1_with_dispatch", "convert_to_tensor_v2",
            "convert_to_tensor_v2_with_dispatch")},
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

# Module of tensorflow.python.layers -> (classes, functions) of tf.layers that belong there.
LAYERS = {
    "core": (("Dense", "Dropout", "Flatten"), ("dense", "dropout", "flatten")),
    "convolutional": (
        ("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose", "SeparableConv1D",
         "SeparableConv2D"),
        ("conv1d", "conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "separable_conv1d",
         "separable_conv2d")),
    "normalization": (("BatchNormalization",), ("batch_normalization",)),
    "pooling": (
        ("AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "MaxPooling1D",
         "MaxPooling2D", "MaxPooling3D"),
        ("average_pooling1d", "average_pooling2d", "average_pooling3d", "max_pooling1d",
         "max_pooling2d", "max_pooling3d")),
}

# Modules of TensorFlow's own copy of Keras, which lost most of itself, with what tf.keras has.
KERAS_PARTS = ("layers", "optimizers", "utils")
KERAS_MODULES = ("datasets", *KERAS_PARTS)
