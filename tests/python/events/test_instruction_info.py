"""What the events of compilations tell of instructions and tensors: the kinds of products, names,
outlined functions. The numbers are those that the original's tests of its compiler ask for."""

import contextlib
import unittest

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.keras import layers
from tensorflow.python import ipu
from tensorflow.python.ipu import test_utils as tu
from tensorflow.python.ipu.ops import op_util, pipelining_ops

CHECK = unittest.TestCase()


@pytest.fixture
def report_of(events_only, on_ipu, session):
    """report_of(program, *inputs): runs it once; the ReportJSON of its compilation."""
    def run(program, *inputs, num_ipus=1, recompute=False):
        events_only(num_ipus, recompute)
        with tf.Graph().as_default(), session() as sess:
            with tf.device("cpu"):
                feeds = [tf.placeholder(one.dtype, one.shape, name=f"input_{i}")
                         for i, one in enumerate(inputs)]
            outputs = on_ipu(program, feeds)
            tu.move_variable_initialization_to_cpu()
            report = tu.ReportJSON(CHECK, sess, configure_device=False)
            sess.run(tf.global_variables_initializer())
            report.reset()
            sess.run(outputs, dict(zip(feeds, inputs)))
            report.parse_log()
        return report
    return run


@pytest.fixture
def events_only(devices):
    """events_only(ipus): records events without reports; each device is let go afterwards."""
    del devices  # which configures one IPU again at the end
    with contextlib.ExitStack() as stack:
        def configure(num_ipus, recompute=False):
            config = ipu.config.IPUConfig()
            config.allow_recompute = recompute
            config.auto_select_ipus = num_ipus
            config._profiling.enable_ipu_events = True
            config.configure_ipu_system()
            stack.callback(ipu.config.reset_ipu_configuration)
        yield configure


def dense(x, units):
    return layers.Dense(units, kernel_initializer=tf.constant_initializer(0.1))(x)


def conv(x, size, stride, filters, **options):
    return layers.Conv2D(filters, size, stride, "SAME",
                         kernel_initializer=tf.constant_initializer(0.1), **options)(x)


def trained(logits, labels):
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    return loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)


IMAGE, LABEL, ROW = np.ones([1, 4, 4, 2], "f"), np.int32([1]), np.ones([1, 224], "f")


def two_convolutions(x, label):
    x = tf.nn.relu(conv(tf.nn.relu(conv(x, 3, 1, 16)), 3, 1, 100))
    return trained(tf.reduce_mean(x, [1, 2]), label)


def small_resnet(x, label):
    x = layers.MaxPooling2D(3, 2, padding="SAME")(tf.nn.relu(conv(x, 7, 2, 16)))
    y = conv(tf.nn.relu(conv(x, 3, 2, 64)), 3, 1, 64)
    shortcut = tf.pad(tf.strided_slice(x, [0] * 4, x.shape, [1, 2, 2, 1]),
                      [[0, 0], [0, 0], [0, 0], [0, 48]])
    return trained(dense(tf.reduce_mean(tf.nn.relu(y + shortcut), [1, 2]), 100), label)


def four_products(x, label):
    for units in (16, 48, 48, 100):
        x = tf.nn.relu(dense(x, units))
    return trained(x, label)


def parallel_products(x, label):
    for units in (48, 100):
        x = tf.nn.relu(dense(x, units)) + tf.nn.relu(dense(x, units))
    return trained(x, label)


@pytest.mark.parametrize("program, x, counts", [
    (two_convolutions, IMAGE, [0, 4, 0, 2]),
    (small_resnet, IMAGE, [0, 6, 2, 4]),
    (four_products, ROW, [0, 4, 3, 4]),
    (parallel_products, ROW, [0, 4, 2, 4])])
def test_training(report_of, program, x, counts):
    assert report_of(program, x, LABEL).get_ml_type_counts() == counts


def test_inference_and_what_the_program_says(report_of):
    assert report_of(lambda x: conv(conv(x, 1, 1, 2), 1, 1, 2),
                     IMAGE).get_ml_type_counts() == [2, 0, 0, 0]

    def program(x):
        return op_util.SetOpAsWU(tf.matmul(op_util.SetOpAsBwd(tf.matmul(x, x)), x))

    assert report_of(program, np.ones([4, 4], "f")).get_ml_type_counts() == [0, 0, 1, 1]


def test_a_multi_conv_is_one(report_of):
    @ipu.nn_ops.multi_conv
    def pair(x, y):
        return conv(x, 1, 1, 2), conv(y, 1, 1, 4)

    def program(x, y, labels):
        x, y = pair(*pair(x, y))
        return trained(tf.reduce_mean(x, [2, 3]) + tf.reduce_mean(y, [2, 3]), labels)

    x = np.ones([2, 8, 8, 4], "f")
    info = report_of(program, x, x, np.int32([1, 1]))
    assert info.get_ml_type_counts() == [0, 2, 1, 2]


def test_a_multi_conv_with_groups(report_of):
    @ipu.nn_ops.multi_conv
    def pair(x, y):
        return [layers.DepthwiseConv2D(2, depth_multiplier=2)(one) for one in (x, y)]

    def program(x, y, labels):
        x, y = pair(*pair(x, y))
        return trained(tf.reduce_mean(x, [2, 3]) + tf.reduce_mean(y, [2, 3]), labels)

    x = np.ones([2, 8, 8, 4], "f")
    assert report_of(program, x, x, np.int32([1, 1])).get_ml_type_counts() == [1, 2, 0, 2]


def pipelined(first, second):
    """A training program of these stages and a loss, over 12 mini-batches."""
    def loss(x, label):
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(logits=x, labels=label))

    def optimizer(value):
        return pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.01), value)

    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def program(x, label):
        return pipelining_ops.pipeline([first, second, loss], 12, inputs=[x, label],
                                       outfeed_queue=queue, optimizer_function=optimizer)

    return program


def test_a_pipeline_that_recomputes(report_of):
    def first(x, label):
        return tf.nn.relu(dense(tf.nn.relu(dense(x, 16)), 48)), label

    def second(x, label):
        return tf.nn.relu(dense(tf.nn.relu(dense(x, 48)), 100)), label

    report = report_of(pipelined(first, second), ROW, LABEL, num_ipus=4, recompute=True)
    assert report.get_ml_type_counts() == [0, 8, 3, 4]


def test_a_pipeline_with_a_product_in_parts(report_of):
    def first(x, label):
        with tf.variable_scope("first", use_resource=True):
            weights = tf.get_variable("w", [224, 48], initializer=tf.ones_initializer())
            a = tf.nn.relu(ipu.math_ops.serialized_matmul(
                x, weights, 2, serialization_dimension="a_rows_b_columns"))
            return a + tf.nn.relu(dense(x, 48)), label

    def second(x, label):
        with tf.variable_scope("second", use_resource=True):
            return tf.nn.relu(dense(x, 100)) + tf.nn.relu(dense(x, 100)), label

    report = report_of(pipelined(first, second), ROW, LABEL, num_ipus=4)
    assert report.get_ml_type_counts() == [0, 5, 2, 5]
    report.assert_pipeline_stages_on_expected_ipu([0, 1, 3], 1472)


def test_names_of_tensors(report_of):
    def program(x):
        with tf.variable_scope("", use_resource=True):
            beta = tf.get_variable("x", [4], initializer=tf.zeros_initializer())
            gamma = tf.get_variable("y", [4], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="moments")
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)

    report = report_of(program, np.ones([4, 8, 8, 4], "f"))
    report.assert_tensor_input_names("input_0", "x", "y")
    report.assert_tensor_inst_name_mappings({"arg0.1": "XLA_Args/input_0"})
    names = set(report.get_tensor_map().tensor_inst_name_mappings().values())
    assert "moments/mean" in names
    with pytest.raises(AssertionError, match="arg1"):
        report.assert_tensor_input_names("input_0", "z")


def test_shards_are_on_the_tiles_of_their_ipus(report_of):
    def program(a, b, c):
        with ipu.scopes.ipu_shard(0):
            first = a + b
        with ipu.scopes.ipu_shard(1):
            return first + (a + c)

    one = np.ones([2], "f")
    tensors = report_of(program, one, one, one, num_ipus=2).get_tensor_map()
    [computation] = tensors.computation_names()
    assert tensors.tile_ids(computation) == {0, 1472}


def outlined(x, weights, bias):
    @ipu.outlined_function
    def layer(x, weights, bias):
        return tf.sigmoid(tf.matmul(x, weights) + bias)

    return layer(x, weights, bias)


def test_outlined_functions_are_computations_of_their_own(report_of):
    x = np.ones([16, 16], "f")

    def inference(a, b, c):
        first = outlined(a, b, c)
        return first - outlined(first, a, c)

    report = report_of(inference, x, x, x)
    assert report.tensor_map.computation_names() == ["layer", "program"]
    names = {one.name for one in report.tensor_map.mappings["layer"]}
    assert "MatMul" in names and not any("layer" in name for name in names)

    def training(a, b, c, labels):
        with tf.variable_scope("vs", use_resource=True):
            weights = [tf.get_variable(f"w{i}", [16, 16], initializer=tf.ones_initializer())
                       for i in range(2)]
        first = outlined(a, weights[0], b)
        return trained(first - outlined(first, weights[1], c), labels)

    report = report_of(training, x, x, x, np.ones([16], np.int32))
    assert report.tensor_map.computation_names() == ["layer", "layer_grad", "program"]


def test_an_outlined_function_that_is_called_once_is_part_of_its_caller(report_of):
    @ipu.outlined_function
    def relu(x):
        return tf.nn.relu(tf.matmul(x, x))

    x = np.ones([16, 16], np.float16)
    assert report_of(relu, x).tensor_map.computation_names() == ["program"]

    def three(a, b, c):
        return relu(a), relu(b), relu(c)

    tensors = report_of(three, x, x, x.astype("f")).tensor_map
    assert tensors.computation_names() == ["relu", "program"]
    assert {one.dtype for one in tensors.mappings["relu"]} == {"half"}
