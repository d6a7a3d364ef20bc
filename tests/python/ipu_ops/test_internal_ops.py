"""Operations that hand tensors on, queues in a run, marks, captured gradients; and that every
module can be had by all of its names."""

import importlib
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.eager import backprop
from tensorflow.python.ipu.ops import (grad_util_ops, internal_ops, op_util,
                                       summary_ops)

# Module -> what the original has in it.
NAMES = {
    "embedding_ops": ["embedding_lookup", "HostEmbeddingOptimizerSpec", "HostEmbedding",
                      "create_host_embedding", "HostEmbeddingSGDGAOptimizerSpec"],
    "embedding_ops_grad": [],
    "f8_ops": ["Format", "create_metadata", "QuarterTensor", "convert_to_f8", "convert_from_f8",
               "canonicalise_input", "canonicalise_output", "f8_matmul", "f8_conv_1d",
               "f8_conv_2d", "f8_conv_3d"],
    "grad_util_ops": ["capture_upstream_gradients"],
    "grad_util_ops_grad": [],
    "image_ops": ["normalise_image"],
    "internal_ops": ["remap", "remap_deduce", "fifo", "print_tensor", "recompute",
                     "block_recompute", "get_current_iteration_counter"],
    "internal_ops_grad": [],
    "math_ops": ["serialized_matmul", "segment_sum"],
    "nn_ops": ["gelu", "multi_conv", "sampled_softmax_loss", "nce_loss", "ctc_loss",
               "ctc_loss_with_logits", "hard_sigmoid", "swish", "ctc_loss_v2",
               "ctc_loss_with_log_probs", "ctc_beam_search_decoder",
               "ctc_beam_search_decoder_with_log_probs", "softmax"],
    "nn_ops_grad": [],
    "normalization_ops": ["DATA_FORMAT_NCHW", "DATA_FORMAT_NHWC", "group_norm", "layer_norm",
                          "instance_norm"],
    "normalization_ops_grad": [],
    "op_util": ["SetMlType", "SetOpAsFwd", "SetOpAsBwd", "SetOpAsWU",
                "conv_gradients_override_map", "HandleMatMulGrads",
                "matmul_gradients_override_map", "gradients_override_map",
                "gradient_override_scope", "get_accumulator_dtype", "get_activation_name",
                "bool_to_three_state", "parse_gradient_accumulation_method",
                "accumulate_gradients", "create_resource_update", "accumulate_tagged_gradients"],
    "rand_ops": ["dropout"],
    "rand_ops_grad": [],
    "rnn_ops": ["POPNN_LSTM", "POPNN_GRU", "POPNN_DYNAMIC_GRU", "POPNN_AUGRU",
                "POPNN_LSTM_NUM_GATES", "POPNN_GRU_NUM_GATES", "POPNN_DYNAMIC_GRU_NUM_GATES",
                "POPNN_AUGRU_NUM_GATES", "PopnnLSTM", "PopnnGRU", "PopnnDynamicGRU", "PopnnAUGRU",
                "PopnnDynamicLSTM"],
    "rnn_ops_grad": [],
    "slicing_ops": ["sequence_slice", "sequence_slice_unpack", "sequence_slice_pack"],
    "slicing_ops_grad": [],
    "statistics_ops": ["fixed_width_bins", "histogram", "histogram_update",
                       "histogram_normalize"],
    "summary_ops": ["ipu_compile_summary", "get_ipu_reports"],
    "popfloat_cast_to_gfloat": ["cast_to_gfloat16_param_size", "cast_to_gfloat32_param_size",
                                "GenericFloat", "cast_native_to_gfloat", "cast_gfloat_to_native",
                                "calc_gfloat_params"],
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    package = "ops.experimental" if name.startswith("popfloat") else "ops"
    module = importlib.import_module(f"tensorflow.python.ipu.{package}.{name}")
    assert getattr(ipu, name) is module
    assert importlib.import_module(f"tensorflow.python.ipu.{name}") is module
    assert getattr(importlib.import_module(f"tensorflow.python.ipu.{package}"), name) is module
    for one in NAMES[name]:
        assert inspect.getdoc(getattr(module, one)) or not callable(getattr(module, one))


@pytest.mark.parametrize("function", [
    internal_ops.remap, internal_ops.remap_deduce, internal_ops.recompute,
    internal_ops.block_recompute])
@pytest.mark.parametrize("where", ["ipu", "cpu"])
def test_handed_on(run, random, function, where):
    x = random(3, 4)
    y, dx = run(lambda x: (lambda y: [y, tf.gradients(y * y, x)[0]])(function(x, name="n")), x,
                where=where)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_allclose(dx, 2 * x, rtol=1e-6)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_fifo(run, depth):
    def program():
        def body(x, seen):
            late = internal_ops.fifo(x, depth)
            return x + 1, tf.tensor_scatter_nd_update(seen, [[tf.cast(x[0], tf.int32)]], late[:1])
        return ipu.loops.repeat(6, body, [tf.zeros([2]), tf.fill([6], -1.)])[1]

    seen, = run(program)
    np.testing.assert_array_equal(seen, np.maximum(np.arange(6) - depth, 0))


def test_fifo_outside_of_programs():
    with pytest.raises(RuntimeError, match="ipu_compiler.compile"):
        internal_ops.fifo(tf.zeros([2]), 1)
    with pytest.raises(TypeError, match="depth must be an int, but it is 1.5."):
        internal_ops.fifo(tf.zeros([2]), 1.5)


def test_iteration_counter(run):
    def program():
        def body(total):
            return total + internal_ops.get_current_iteration_counter()
        return ipu.loops.repeat(5, body, [tf.constant(0)]), \
            internal_ops.get_current_iteration_counter(lower_into_pipeline_stage=True)

    assert run(program) == [10, 0]
    with pytest.raises(TypeError, match="banana"):
        internal_ops.get_current_iteration_counter(banana=1)


def test_print_tensor(capfd):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        operation = internal_ops.print_tensor(tf.constant([1., 2.5]), "two")
    with tf.Session() as session:
        session.run(operation)
    assert "two: [1 2.5]" in capfd.readouterr().err


# ---- op_util ----

def marks(operation):
    return str(operation.node_def.attr["_XlaFrontendAttributes"].s)


def test_gradient_override_scope():
    a, b = tf.ones([2, 3]), tf.ones([3, 4])
    image, filters = tf.ones([1, 4, 4, 2]), tf.ones([2, 2, 2, 3])
    with op_util.gradient_override_scope(training=True):
        product, image_out = a @ b, tf.nn.conv2d(image, filters, 1, "SAME")
    for result, inputs in ((product, [a, b]), (image_out, [image, filters])):
        assert "TRAINING_FWD" in marks(result.op)
        backward, update = tf.gradients(result, inputs)
        assert "TRAINING_BWD" in marks(backward.op) and "TRAINING_WU" in marks(update.op)
    with op_util.gradient_override_scope(training=False):
        assert "INFERENCE_FWD" in marks((a @ b).op)
    assert set(op_util.gradients_override_map()) == {
        *op_util.conv_gradients_override_map(), *op_util.matmul_gradients_override_map()}


def test_op_util():
    x = tf.identity(tf.ones([2]))
    assert op_util.SetOpAsBwd(x) is x and "TRAINING_BWD" in marks(x.op)
    assert op_util.SetMlType(x, None) is x
    assert op_util.get_accumulator_dtype(x, None) == tf.float32
    assert op_util.get_accumulator_dtype(x, tf.float16) == tf.float16
    assert op_util.get_accumulator_dtype(x, lambda one: tf.float16) == tf.float16
    assert [op_util.bool_to_three_state(one) for one in (None, True, False)] == [
        "THREESTATE_UNDEFINED", "THREESTATE_ON", "THREESTATE_OFF"]
    assert op_util.bool_to_three_state(None, "THREESTATE_ON") == "THREESTATE_ON"
    method = op_util.parse_gradient_accumulation_method("running_mean")
    assert method.name == "RUNNING_MEAN"
    assert op_util.parse_gradient_accumulation_method(method) is method
    with pytest.raises(ValueError, match="must be set to SUM, MEAN or RUNNING_MEAN"):
        op_util.parse_gradient_accumulation_method("banana")
    with pytest.raises(TypeError, match="Unrecognized function : .*<lambda>"):
        op_util.get_activation_name(lambda x: x)
    with pytest.raises(ValueError, match="To use replicated_optimizer_state_sharding, optimizer "):
        op_util.create_resource_update(None, "", [], False, True, 1)


# ---- Others ----

def test_captured_gradients(run, random):
    x = random(4)

    def mine(x):
        with backprop.GradientCaptureContext() as context:
            y, z = grad_util_ops.capture_upstream_gradients((x * 2, x), tag="t")
            dx = tf.gradients(y * y + z, x)[0]
        return [y, dx, *context.captured_gradients["t"]]

    y, dx, *captured = run(mine, x)
    np.testing.assert_allclose(y, 2 * x)
    np.testing.assert_allclose(dx, 8 * x + 1, rtol=1e-5)
    captured.sort(key=lambda one: (one == 1).all())
    np.testing.assert_allclose(captured[0], 4 * x, rtol=1e-6)
    np.testing.assert_array_equal(captured[1], 1)
    with pytest.raises(RuntimeError, match="may only be used within the context of"):
        grad_util_ops.capture_upstream_gradients(tf.ones([1]))


def test_summaries():
    with tf.control_dependencies(None):
        summary = summary_ops.ipu_compile_summary("shown", tf.no_op(), collections=["kept"])
    assert tf.get_collection("kept") == [summary]
    with tf.Session() as session:
        written = tf.Summary.FromString(session.run(summary))
        assert session.run(summary_ops.get_ipu_reports()).shape == (0,)
    assert written.value[0].metadata.plugin_data.plugin_name == "ipu"
