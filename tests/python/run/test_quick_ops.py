"""Ops that are written with others before TensorFlow's bridge lowers them (quick_ops.py)."""

import collections

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.tf.inner import protos
from tremula.tf.runtime.lowering import lowering, staging
from tremula.tf.runtime.nodes import quick_ops
from tremula.tf.runtime.tracing import tracing

SLOW = {"Relu", "ReluGrad", "FusedBatchNormV3", "FusedBatchNormGradV3"}
# What carries values only, of which the two ways have different numbers.
CARRIERS = {"constant", "get-tuple-element", "parameter", "reshape", "tuple"}


def stage(computation):
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        trace = tracing.Trace("cluster", "/device:IPU:0")
        results = trace.run(computation, [])
        trace.finish([tf.identity(one) for one in results])
        return staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                             "/device:IPU:0")


def slow_ops(source):
    bodies = [source.graph_def.node, *(one.node_def for one in source.graph_def.library.function)]
    return {node.op for nodes in bodies for node in nodes} & SLOW


def contents(source):
    """What computes in a program, with what a report says about it: {description: count}."""
    module = protos.HloModuleProto.FromString(lowering.lower(source).module)
    shapes = {one.id: one.shape for part in module.computations for one in part.instructions}

    def is_idle(one):
        return one.opcode in CARRIERS or one.opcode == "convert" and (
            shapes[one.operand_ids[0]].element_type == one.shape.element_type)

    return collections.Counter(
        (one.opcode, one.shape.element_type, tuple(one.shape.dimensions), one.metadata.op_type,
         one.metadata.op_name, one.metadata.source_line)
        for part in module.computations for one in part.instructions if not is_idle(one))


def image(shape, dtype=tf.float32):
    return tf.get_variable("image", shape, dtype, tf.zeros_initializer(), use_resource=True) + 1


def relu(dtype):
    def computation():
        x = image([2, 3], dtype)
        y = tf.nn.relu(x)
        return [y, *tf.gradients(y, [x])]
    return computation


def norm(data_format="NHWC", is_training=True, dtype=tf.float32):
    def computation():
        x = image([2, 4, 4, 4], dtype)
        scale, offset = tf.ones([4]) * 2, tf.ones([4]) * 3
        rest = {} if is_training else {"mean": scale, "variance": offset}
        y, mean, variance = tf.nn.fused_batch_norm(
            x, scale, offset, epsilon=.01, data_format=data_format, is_training=is_training, **rest)
        return [y, mean, variance, *tf.gradients(y, [x, scale, offset])]
    return computation


def layer_in_loop():
    def body(i, x):
        y, _, _ = tf.nn.fused_batch_norm(x, tf.ones([4]), tf.zeros([4]))
        y = tf.nn.relu(y)
        gradient, = tf.gradients(y, [x])
        with tf.control_dependencies([y.op]):
            return i + 1, tf.nn.relu(x - gradient)

    return tf.while_loop(lambda i, _: i < 3, body, [0, image([2, 3, 3, 4])])


COMPUTATIONS = {
    "relu": relu(tf.float32), "relu of halves": relu(tf.float16), "norm": norm(),
    "norm of halves": norm(dtype=tf.float16), "norm, channels first": norm("NCHW"),
    "layer in a loop": layer_in_loop}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_programs_are_the_same(name, monkeypatch):
    quick = stage(COMPUTATIONS[name])
    monkeypatch.setattr(quick_ops, "use_quick_ops", lambda *arguments: None)
    slow = stage(COMPUTATIONS[name])
    assert slow_ops(slow) and not slow_ops(quick)
    expected = contents(slow)
    assert expected and contents(quick) == expected


def test_gradients_of_inference_stay():
    assert slow_ops(stage(norm(is_training=False))) == {"FusedBatchNormV3", "FusedBatchNormGradV3"}


def test_an_output_that_only_the_third_version_has_is_kept():
    def computation():
        one = tf.ones([4])
        return tf.raw_ops.FusedBatchNormV3(x=image([2, 3, 3, 4]), scale=one, offset=one, mean=one,
                                           variance=one)

    source = stage(computation)
    assert slow_ops(source) == {"FusedBatchNormV3"}
    assert len(lowering.lower(source).shapes) == 6


def test_integers_stay():
    assert slow_ops(stage(lambda: [tf.nn.relu(tf.cast(image([2]), tf.int32))])) == {"Relu"}
