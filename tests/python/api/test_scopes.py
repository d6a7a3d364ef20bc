"""Scopes and sharding: what they put on the nodes of a graph."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.compiler.xla import xla_data_pb2

from tensorflow.python.ipu import scopes, sharding


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_ipu_scope(graph):
    with scopes.ipu_scope("/device:IPU:0"):
        variable = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        sum_ = variable + 1.
    assert sum_.device == variable.device == "/device:IPU:0"
    assert variable.op.type == "VarHandleOp"
    assert sum_.op.get_attr("_XlaCompile") is True
    assert sum_.op.get_attr("_XlaSeparateCompiledGradients") is False
    assert sum_.op.get_attr("_XlaScope") == b"jit_scope_ipu_0"
    outside = tf.constant(1.)
    assert not sharding.has_attr(outside.op, "_XlaCompile")
    # Once the plugin is loaded, graphs have the CPU as their default device.
    assert outside.device in ("", "/device:CPU:0")


def test_ipu_scope_in_a_job(graph):
    with tf.device("/job:worker/task:0"), scopes.ipu_scope("/device:IPU:1"):
        assert tf.constant(1.).device == "/job:worker/task:0/device:IPU:1"


def test_ipu_shard(graph):
    with scopes.ipu_shard(3):
        one = tf.constant(1.)
        with scopes.ipu_shard([1, 2]):
            several = tf.constant(1.)
    proto = xla_data_pb2.OpSharding.FromString(one.op.get_attr("_XlaSharding"))
    assert proto.type == xla_data_pb2.OpSharding.MAXIMAL
    assert list(proto.tile_assignment_devices) == [3]
    assert sharding.get_sharding(one.op) == [3]
    assert sharding.get_sharding(several.op) == [1, 2]
    assert sharding.get_sharding(tf.constant(1.).op) is None
    with scopes.ipu_shard(3), scopes.ipu_shard(-1):
        assert sharding.get_sharding(tf.constant(1.).op) is None
    for wrong in (-2, "0", 1.5, True):
        with pytest.raises(ValueError), scopes.ipu_shard(wrong):
            pass


def test_gradients_take_the_shard_of_their_operation(graph):
    x = tf.placeholder(tf.float32, [2])
    with scopes.ipu_shard(1):
        y = tf.tanh(x)
    with scopes.ipu_shard(2):
        z = tf.exp(y)
    tf.gradients(z, x)
    shards = {operation.type: sharding.get_sharding(operation)
              for operation in graph.get_operations() if operation.name.startswith("gradients/")}
    assert shards["TanhGrad"] == [1] and shards["Mul"] == [2]


def test_tape_gradients_take_the_shard_of_their_operation(eagerly):
    @tf2.function
    def function(x):
        with tf2.GradientTape() as tape:
            tape.watch(x)
            with scopes.ipu_shard(1):
                y = tf2.tanh(x)
            with scopes.ipu_shard(2):  # a gradient that needs no outputs
                z = tf2.matmul([y], [[3.], [4.]])
        return tape.gradient(z, x)

    graph = function.get_concrete_function(tf2.TensorSpec([2])).graph
    shards = {one.name: sharding.get_sharding(one) for one in graph.get_operations()}
    products = [name for name in shards if name.startswith("gradient_tape/MatMul")]
    assert shards["gradient_tape/TanhGrad"] == [1]
    assert products and all(shards[name] == [2] for name in products)
    np.testing.assert_allclose(function(tf2.zeros([2])), [3, 4])
    with tf2.GradientTape() as tape:  # eager gradients still work
        x = tf2.Variable(2.)
        y = x * x
    assert tape.gradient(y, x).numpy() == 4


def test_marks_reach_loops():
    @tf2.function
    def function(x):
        with scopes.ipu_shard(1), scopes.stochastic_rounding(True):
            looped = tf2.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf2.tanh(y)), [0, x])
        return looped[1], tf2.exp(x)

    graph = function.get_concrete_function(tf2.TensorSpec([2])).graph
    loop, = [one for one in graph.get_operations() if "While" in one.type]
    body = graph._get_function(loop.get_attr("body").name)
    tanh, = [one for one in body.graph.get_operations() if one.type == "Tanh"]
    assert sharding.get_sharding(tanh) == [1]
    assert _frontend(tanh.outputs[0]) == {"STOCHASTIC_ROUNDING": "THREESTATE_ON"}
    exp, = [one for one in graph.get_operations() if one.type == "Exp"]
    assert sharding.get_sharding(exp) is None


def test_dependencies(graph):
    a = tf.constant(1.)
    with tf.control_dependencies([tf.constant(2., name="first")]):
        b = a + 1.
    order = [operation.name for operation in sharding.dependencies([b.op])]
    assert set(order) == {"Const", "first", "add", "add/y"} and order[-1] == "add"
    assert [operation.name for operation in sharding.dependencies([b])] == order


def test_propagate_sharding(graph):
    a = tf.constant(1.)
    with scopes.ipu_shard(1):
        b = tf.exp(a)
    c = tf.sqrt(b)
    with tf.colocate_with(b.op):
        d = tf.constant(2.)
    assert sharding.get_shard_from_colocation(d.op) == b.op.get_attr("_XlaSharding")
    sharding.propagate_sharding(graph)
    assert [sharding.get_sharding(value.op) for value in (a, c, d)] == [[1], [1], [1]]


def _frontend(value):
    data = value.op.get_attr("_XlaFrontendAttributes")
    return dict(xla_data_pb2.FrontendAttributes.FromString(data).map)


def test_frontend_attributes(graph):
    with scopes.stochastic_rounding(False), scopes.partials_type(np.float16):
        both = tf.constant(1.)
        with scopes.frontend_attribute("a", "b", restore_to="c"):
            three = tf.constant(1.)
        after = tf.constant(1.)
    assert _frontend(both) == {"STOCHASTIC_ROUNDING": "THREESTATE_OFF", "PARTIALS_TYPE": "half"}
    assert _frontend(three)["a"] == "b" and _frontend(after)["a"] == "c"
    assert _frontend(tf.constant(1.)) == {"STOCHASTIC_ROUNDING": "THREESTATE_UNDEFINED"}
    with tf.Graph().as_default():
        assert not sharding.has_attr(tf.constant(1.).op, "_XlaFrontendAttributes")
    with pytest.raises(ValueError, match="provided int32"), scopes.partials_type(np.int32):
        pass


def test_outside_compilation(graph):
    with pytest.raises(ValueError, match="is only allowed in XLA context"):
        with scopes.outside_compilation_scope():
            pass

    @tf2.function
    def compiled(x):
        with scopes.outside_compilation_scope():
            with pytest.raises(ValueError, match="Illegal nesting of outside_compilation_scope"):
                with scopes.outside_compilation_scope():
                    pass
            y = x + 1.
        with scopes.outside_compilation_scope("other"):
            return y + 2.

    inner = compiled.get_concrete_function(tf2.TensorSpec([])).graph
    names = [one.get_attr("_xla_outside_compilation") for one in inner.get_operations()
             if one.type == "AddV2"]
    assert names[0].startswith(b"outside_") and names[1].startswith(b"other_")
