"""Ops that are on the device without `compile`, and ops that are nowhere in particular."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.tf import runtime


@pytest.fixture
def x():
    with tf.device("cpu"):
        return tf.placeholder(tf.float32, [None])


def test_one_by_one(x, session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = tf.reduce_sum(tf.nn.relu(x) * 2. + 1.)
    with session() as s:
        assert s.run(y, {x: [1, -2, 3]}) == 2 + 0 + 6 + 3
        assert s.run(y, {x: [1]}) == 3


def test_values_that_must_be_known(x, session):
    with tf.device("cpu"):
        shape = tf.placeholder(tf.int32, [None])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = tf.reshape(x, shape) * 1.
        z = tf.transpose(tf.tile(y, [1, 2]))
    with session() as s:
        assert s.run(z, {x: np.arange(6), shape: [2, 3]}).shape == (6, 2)
        assert s.run(z, {x: np.arange(6), shape: [3, 2]}).shape == (4, 3)


def test_shapes_that_follow_from_small_values(session):
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [5])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = [x[1:3] * 2., tf.nn.top_k(x, 2)[0], tf.split(x, [2, 3])[1]]
    with session() as s:
        for got, expected in zip(s.run(y, {x: [1, 5, 3, 4, 2]}), [[10, 6], [5, 4], [3, 4, 2]]):
            np.testing.assert_array_equal(got, expected)


def test_variables(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = tf.get_variable("v", [3], initializer=tf.ones_initializer())
        assign = v.assign(v * 2.)
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(assign)
        np.testing.assert_array_equal(s.run(assign), [4, 4, 4])


def test_random_op(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = tf.random_uniform([1000], 2., 4.)
    with session() as s:
        value = s.run(y)
    assert value.min() >= 2 and value.max() < 4 and abs(value.mean() - 3) < 0.1


def test_resource_update_without_compile(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = tf.get_variable("v", [3], initializer=tf.ones_initializer())
        step = tf.train.MomentumOptimizer(1., 0.9).minimize(tf.reduce_sum(v))
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(step)
        s.run(step)
        np.testing.assert_allclose(s.run(v), [1 - 1 - 1.9] * 3, rtol=1e-6)


def test_what_is_placed_nowhere_stays_on_the_cpu(session):
    v = tf.get_variable("v", [3], use_resource=True)
    y = tf.identity(v + tf.constant(1.))
    options = tf.RunOptions(output_partition_graphs=True)
    metadata = tf.RunMetadata()
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(y, options=options, run_metadata=metadata)
    for graph in metadata.partition_graphs:
        assert not [node.name for node in graph.node if "IPU" in node.device]


@pytest.mark.parametrize("compiled", [False, True])
def test_device_that_no_configuration_names(x, session, devices, capfd, compiled):
    """It has a single IPU, whatever the others have."""
    devices(2)
    with ipu.scopes.ipu_scope("/device:IPU:1"):
        y = ipu.ipu_compiler.compile(lambda x: x + 1., [x])[0] if compiled else x + 1.
    with session() as s:
        np.testing.assert_array_equal(s.run(y, {x: [1]}), [2])
    assert "/device:IPU:1, creating a device with a single IPU" in capfd.readouterr().err


def test_supported_ops():
    ops = runtime.supported_ops()
    assert "float16" in ops["MatMul"]["T"] and "float64" not in ops["MatMul"]["T"]
    assert "FFT" not in ops and "ComplexAbs" not in ops and len(ops) > 300


def test_check_knows_what_the_device_lacks():
    from tremula.check.absent_ops import ABSENT
    from tremula.tf import absent_ops
    from tremula.tf.inner import versions
    assert not set(ABSENT.values()) & set(runtime.supported_ops())
    if versions.tensorflow_version() == "2.15.1":
        assert ABSENT == absent_ops.table(), \
            "run python -m tremula.tf.absent_ops > python/tremula/check/absent_ops.py"


def test_no_type_that_the_op_itself_forbids():
    from tensorflow.python.framework import dtypes, op_def_registry
    for op, attributes in runtime.supported_ops().items():
        definition = op_def_registry.get(op)
        for one in definition.attr:
            if one.name in attributes and one.allowed_values.list.type:
                allowed = {dtypes.as_dtype(number).name
                           for number in one.allowed_values.list.type}
                assert set(attributes[one.name]) <= allowed, op


@pytest.mark.parametrize("size", [3, 5000])  # of the larger no value becomes part of a program
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_ops_that_the_bridge_has_for_other_types_only(dtype, size, session, on_ipu):
    x = np.arange(2 * size).reshape(2, size).astype(dtype)
    with tf.device("cpu"):
        fed = tf.placeholder(dtype, [2, size])

    def both(x):
        return tf.raw_ops.Round(x=x), tf.raw_ops.ConjugateTranspose(x=x, perm=[1, 0])

    def step(x):
        """The ops in a function's body, where results have names."""
        again = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + tf.raw_ops.Round(x=y)),
                              [0, x], maximum_iterations=2)[1]
        return both(x) + (again,)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        alone = both(fed)
    compiled = on_ipu(step, [fed])
    with session() as s:
        rounded, turned = s.run(alone, {fed: x})
        inside = s.run(compiled, {fed: x})
    np.testing.assert_array_equal(rounded, x)
    np.testing.assert_array_equal(turned, x.T)
    for got, expected in zip(inside, [x, x.T, x + x + (x + x)]):
        np.testing.assert_array_equal(got, expected)


def test_transpose_of_float16(session, on_ipu):
    x = np.arange(6).reshape(2, 3).astype(np.float16)
    y = on_ipu(lambda x: tf.raw_ops.ConjugateTranspose(x=x, perm=[1, 0]), [tf.constant(x)])
    with session() as s:
        np.testing.assert_array_equal(s.run(y)[0], x.T)


def test_update_op_whose_shapes_come_from_handles(session, on_ipu):
    def step(g):
        v = tf.get_variable("v", [2, 3], initializer=tf.ones_initializer(), use_resource=True)
        train = tf.train.ProximalAdagradOptimizer(.5, initial_accumulator_value=3.)
        with tf.control_dependencies([train.apply_gradients([(g, v)])]):
            return v.read_value()
    y = on_ipu(step, [np.ones([2, 3], np.float32)])
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_allclose(s.run(y)[0], np.full([2, 3], 1 - .5 / 2.), rtol=1e-6)


def test_what_is_known_to_be_needed_is_not_tried_without(script, tmp_path):
    """TensorFlow logs a warning of every attempt to lower an op that fails."""
    done = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.device("cpu"):
            x, shape = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [None])
            begin = tf.placeholder(tf.int32, [])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            alone = [tf.reshape(x, shape), tf.transpose(tf.reshape(x, shape)), x[begin:begin + 2],
                     tf.reduce_sum(tf.reshape(x, shape), 1)]
            compiled = ipu.ipu_compiler.compile(lambda x, n: tf.reshape(x, n + 0) * 2., [x, shape])
        with tf.Session() as s:
            print(s.run(alone + compiled, {x: [1, 2, 3, 4], shape: [2, 2], begin: 1}))
        """, TF_CPP_MIN_LOG_LEVEL="0", TREMULA_RUNTIME_DIR=str(tmp_path))
    assert "[2., 3.]" in done.stdout, done.stderr
    assert "compile-time constant" not in done.stderr


def test_arguments_to_know():
    """Through what is computed from them, but not through shapes; a slice's begin is not one."""
    from tremula.tf.runtime.lowering import known_values, lowering
    with tf.Graph().as_default() as graph:
        x, n, begin = (tf.placeholder(dtype, shape, name) for dtype, shape, name in (
            (tf.float32, [4, 4], "x"), (tf.int32, [2], "n"), (tf.int32, [2], "begin")))
        tf.reshape(tf.slice(x, begin, [2, 2]), tf.shape(x)[:1])
        tf.tile(x, n * 2, name="tiled")
    source = lowering.Source(
        graph.as_graph_def(), [lowering.Argument(f"{name}:0", 1, None) for name in
                               ("x", "n", "begin")], [], ["tiled:0"])
    assert known_values.arguments_to_know(source) == {1}
