"""ipu_compiler.compile: what it returns, variables, shapes, and what it refuses."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def placeholder(shape, dtype=tf.float32, name=None):
    with tf.device("cpu"):
        return tf.placeholder(dtype, shape, name)


def test_single_result_is_a_list(on_ipu, session):
    x = placeholder([2])
    result = on_ipu(lambda x: x + 1., [x])
    assert isinstance(result, list) and len(result) == 1
    with session() as s:
        np.testing.assert_array_equal(s.run(result, {x: [1, 2]})[0], [2, 3])


def test_flat_results_and_none(on_ipu, session):
    x = placeholder([2])
    result = on_ipu(lambda x: (x + 1., None, x * 2.), [x])
    with session() as s:
        added, doubled = s.run(result, {x: [1, 2]})
    np.testing.assert_array_equal(added, [2, 3])
    np.testing.assert_array_equal(doubled, [2, 4])


def test_nested_results(on_ipu, session):
    x = placeholder([2])
    result = on_ipu(lambda x: {"sum": x + x, "pair": (x, [x * 3.])}, [x])
    assert set(result) == {"sum", "pair"}
    with session() as s:
        value = s.run(result, {x: [1, 2]})
    np.testing.assert_array_equal(value["sum"], [2, 4])
    np.testing.assert_array_equal(value["pair"][1][0], [3, 6])


def test_nested_inputs(on_ipu, session):
    x, y = placeholder([2]), placeholder([2])
    result = on_ipu(lambda pair, z: pair["a"] - pair["b"] + z, [{"a": x, "b": y}, 1.])
    with session() as s:
        np.testing.assert_array_equal(s.run(result, {x: [5, 5], y: [1, 2]})[0], [5, 4])


def test_constant_passthrough_and_empty(on_ipu, session):
    x = placeholder([2])
    e = placeholder([0, 3])
    result = on_ipu(lambda x, e: (tf.constant([7, 8]), x, e, e * 2.), [x, e])
    with session() as s:
        c, p, e1, e2 = s.run(result, {x: [1, 2], e: np.zeros((0, 3))})
    np.testing.assert_array_equal(c, [7, 8])
    np.testing.assert_array_equal(p, [1, 2])
    assert e1.shape == e2.shape == (0, 3)


def test_no_inputs(on_ipu, session):
    result = on_ipu(lambda: tf.ones([2]) + 1.)
    with session() as s:
        np.testing.assert_array_equal(s.run(result)[0], [2, 2])


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.int32, tf.int64])
def test_types(on_ipu, session, dtype):
    x = placeholder([3], dtype)
    result = on_ipu(lambda x: x + x, [x])
    with session() as s:
        value, = s.run(result, {x: [1, 2, 3]})
    assert value.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(value, [2, 4, 6])


def test_mixed_with_the_cpu(on_ipu, session):
    x = placeholder([2])
    with tf.device("cpu"):
        before = tf.cast(tf.cast(x, tf.float64) * 2, tf.float32)
    inside, = on_ipu(lambda v: v + 1., [before])
    with tf.device("cpu"):
        after = tf.strings.as_string(inside)
    with session() as s:
        assert [float(one) for one in s.run(after, {x: [1, 2]})] == [3., 5.]


def test_captured_tensor(on_ipu, session):
    x = placeholder([2])
    result = on_ipu(lambda: x * 2.)
    with session() as s:
        np.testing.assert_array_equal(s.run(result, {x: [1, 2]})[0], [2, 4])


# ---- Variables ----

def counting():
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    add = v.assign_add(w * 2.)
    return add


def test_variables_are_updated(on_ipu, session):
    result = on_ipu(counting)
    with session() as s:
        s.run(tf.global_variables_initializer())
        for step in (1, 2, 3):
            np.testing.assert_array_equal(s.run(result)[0], [2 * step] * 2)
        v, w = s.run(sorted(tf.global_variables(), key=lambda v: v.name))
    np.testing.assert_array_equal(v, [6, 6])
    np.testing.assert_array_equal(w, [1, 1])


def test_initialization_can_move_to_the_cpu(on_ipu, session):
    result = on_ipu(counting)
    ipu.utils.move_variable_initialization_to_cpu()
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(s.run(result)[0], [2, 2])


def test_uninitialised_variable(on_ipu, session):
    result = on_ipu(counting)
    with session() as s, pytest.raises(tf.errors.FailedPreconditionError):
        s.run(result)


def test_initial_value_from_the_computation(on_ipu, session):
    def computation():
        v = tf.Variable(tf.ones([2]) * 3., use_resource=True)
        return v + 1.
    result = on_ipu(computation)
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(s.run(result)[0], [4, 4])


def test_collections_of_variables_made_inside():
    def step(x):
        with tf.variable_scope("inner", use_resource=True):
            count = tf.train.get_or_create_global_step()
            assert tf.train.get_or_create_global_step() is count
            mine = tf.get_variable("mine", [], collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES])
            assert tf.get_collection("mine")[0] is mine
            return x + tf.cast(tf.assign_add(tf.train.get_global_step(), 2), tf.float32)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(step, [tf.constant(1.0)])
    assert tf.train.get_global_step().name == "inner/global_step:0"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(result) == [3.0]


def test_returned_operation_runs(on_ipu, session):
    def computation():
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        return v.assign_add(5.).op
    result = on_ipu(computation)
    assert isinstance(result, tf.Operation)
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(result)
        assert s.run(tf.global_variables()[0]) == 5


def test_training(on_ipu, session):
    x, y = placeholder([8, 2]), placeholder([8, 1])

    def model(x, y):
        w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        train = tf.train.MomentumOptimizer(0.05, 0.5).minimize(loss)
        return loss, train

    result = on_ipu(model, [x, y])
    xs = np.random.RandomState(0).randn(8, 2)
    ys = xs @ [[1.], [2.]]
    with session() as s:
        s.run(tf.global_variables_initializer())
        losses = [s.run(result, {x: xs, y: ys})[0] for _ in range(40)]
    assert losses[-1] < 0.01 * losses[0]


def test_control_flow(on_ipu, session):
    x = placeholder([])

    def computation(x):
        doubled = tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 2.), [0, x])[1]
        return tf.cond(doubled > 20., lambda: doubled, lambda: -doubled)

    result = on_ipu(computation, [x])
    with session() as s:
        assert s.run(result, {x: 1.}) == [-16]
        assert s.run(result, {x: 2.}) == [32]


def test_assertions(on_ipu, session):
    """One that fails ends the run, with its words; numbers are not checked."""
    x = placeholder([2])

    def computation(x):
        def body(i, y):
            with tf.control_dependencies([tf.debugging.assert_less(y, 100., message="too much")]):
                return i + 1, y * 2.

        with tf.control_dependencies([tf.Assert(x[0] > 0., ["never", x])]):
            y = x + 1.
        return (tf.while_loop(lambda i, y: i < 2, body, [0, y])[1],
                tf.check_numerics(x * np.inf, "numbers"))

    result = on_ipu(computation, [x])
    with session() as s:
        assert np.isinf(s.run(result, {x: [1, 2]})[1]).all()
        with pytest.raises(tf.errors.InternalError, match="assertion failed: never"):
            s.run(result, {x: [0, 2]})
        with pytest.raises(tf.errors.InternalError, match="assertion failed: .*too much"):
            s.run(result, {x: [60, 2]})
        np.testing.assert_array_equal(s.run(result, {x: [1, 2]})[0], [8, 12])


def test_updates_that_nothing_asks_for(on_ipu, session):
    """A program does the updates that were built in it, whatever it returns."""
    def computation(x):
        variable = tf.get_variable("v", [], initializer=tf.ones_initializer(), use_resource=True)
        loss = variable * x
        tf.train.GradientDescentOptimizer(.5).minimize(loss)
        return loss

    x = placeholder([])
    result = on_ipu(computation, [x])
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert [s.run(result, {x: 1.})[0] for _ in range(3)] == [1, .5, 0]


def test_loops_and_branches_that_nothing_asks_for(on_ipu, session):
    """They run for what they update and enqueue, also where the computation returns nothing."""
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def variable(name):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE, use_resource=True):
            return tf.get_variable(name, [], initializer=tf.zeros_initializer())

    def computation(x):
        tf.cond(x > 0, lambda: variable("branch").assign_add(x), lambda: variable("branch") + 0)
        ipu.loops.repeat(2, lambda: tf.cond(
            x > 0, lambda: variable("loop").assign_add(x), lambda: tf.zeros([])).op)
        ipu.loops.repeat(3, lambda y: [y + 1, out.enqueue(y)], [x])

    x = placeholder([])
    run = on_ipu(computation, [x])
    values, both = out.dequeue(), [variable("branch"), variable("loop")]
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(run, {x: 1.})
        assert s.run(both) == [1, 2] and s.run(values).tolist() == [1, 2, 3]
        s.run(run, {x: -1.})
        assert s.run(both) == [1, 2] and s.run(values).tolist() == [-1, 0, 1]


def test_variables_are_resources(session):
    """Also where only a device scope is around, and when TensorFlow began in eager mode."""
    def computation(x):
        variable = tf.get_variable("v", [], initializer=tf.ones_initializer())
        return x + tf.cond(x > 0, lambda: variable.read_value(), lambda: tf.zeros([]))

    x = placeholder([])
    with tf.device("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(computation, [x])
    assert not tf.get_variable_scope().use_resource
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert s.run(result, {x: 2.}) == [3]


# ---- Shapes ----

def test_shapes_known_when_it_runs(on_ipu, session, capfd):
    x = placeholder([None, 2])
    result = on_ipu(lambda x: tf.reduce_sum(x, 0) + 1., [x])
    with session() as s:
        for _ in range(2):
            np.testing.assert_array_equal(s.run(result, {x: np.ones((3, 2))})[0], [4, 4])
            np.testing.assert_array_equal(s.run(result, {x: np.ones((5, 2))})[0], [6, 6])
    lines = [one for one in capfd.readouterr().err.splitlines() if "Compiling" in one]
    assert len(lines) == 1 and lines[0].endswith("again, for inputs of the shapes (5, 2)"), lines


def test_variables_with_late_shapes(on_ipu, session):
    x = placeholder([None])

    def computation(x):
        unused = tf.get_variable("a_unwritten", [], initializer=tf.ones_initializer())
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        return v.assign_add(tf.reduce_sum(x) * unused)

    result = on_ipu(computation, [x])
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert s.run(result, {x: [1, 2]}) == [3]
        assert s.run(result, {x: [1, 2, 3]}) == [9]


def test_values_that_must_be_constant(on_ipu, session):
    x, shape = placeholder([6]), placeholder([2], tf.int32)
    result = on_ipu(tf.reshape, [x, shape])
    with session() as s:
        assert s.run(result, {x: np.arange(6), shape: [2, 3]})[0].shape == (2, 3)
        assert s.run(result, {x: np.arange(6), shape: [6, 1]})[0].shape == (6, 1)


# ---- What is refused ----

def test_type_that_an_ipu_has_not(on_ipu):
    x = placeholder([2])
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        on_ipu(lambda x: tf.cast(x, tf.float64), [x])
    text = str(error.value)
    assert "Cast" in text and "/device:IPU:0" in text and "float16" in text
    assert "test_compile.py:" in text


def test_op_that_an_ipu_has_not(on_ipu):
    x = placeholder([2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not support AsString at all"):
        on_ipu(lambda x: tf.strings.length(tf.strings.as_string(x)), [x])


def test_type_inside_a_loop(on_ipu):
    def body(i):
        return tf.cast(tf.cast(i, tf.float64), tf.int32) + 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="no supported kernel for IPU"):
        on_ipu(lambda: tf.while_loop(lambda i: i < 3, body, [0]))


def test_outside_an_ipu_scope():
    with pytest.raises(Exception, match="was not placed on an IPU device"):
        ipu.ipu_compiler.compile(lambda: tf.ones([2]))


def test_estimator_spec(on_ipu):
    class EstimatorSpec(tuple):
        pass
    with pytest.raises(ValueError, match="contains an EstimatorSpec"):
        on_ipu(lambda: EstimatorSpec())


def test_inputs_must_be_a_list(on_ipu):
    with pytest.raises(TypeError, match="must be a list"):
        on_ipu(lambda x: x, placeholder([2]))


def test_nested_result_with_an_operation(on_ipu):
    with pytest.raises(TypeError, match="nested"):
        on_ipu(lambda: {"a": tf.ones([]), "b": tf.no_op()})


def test_nothing_to_compile_may_be_anywhere():
    with tf.device("/device:CPU:0"):
        assert isinstance(ipu.ipu_compiler.compile(tf.no_op), tf.Operation)


def test_scope_inside_the_computation(session):
    def network(x):
        with tf.device("/device:IPU:0"):
            return x + x

    x = tf.placeholder(tf.float32, [2])
    result, = ipu.ipu_compiler.compile(network, [x])
    with session() as s:
        assert s.run(result, {x: [1., 2.]}).tolist() == [2., 4.]


def test_scope_inside_a_loop(session):
    def body(x):
        with tf.device("/device:IPU:0"):
            return x * 2.

    result, = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, body, [1.]))
    with session() as s:
        assert s.run(result) == 8.


def test_estimator_spec_deep_in_the_result():
    class EstimatorSpec:
        pass

    with ipu.scopes.ipu_scope("/device:IPU:0"), \
            pytest.raises(ValueError, match="contains an EstimatorSpec"):
        ipu.ipu_compiler.compile(lambda: [1, [], {"spec": [EstimatorSpec()]}])


def _vector(name="x"):
    return tf.get_variable(name, initializer=tf.constant([1.0, 2.0, 3.0]), use_resource=True)


def _with_a_loss():
    x = _vector()
    loss = tf.reduce_sum(x * x)
    return x, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def _with_a_gather():
    x = _vector()
    rows = tf.gather(x, [0, 2], name="embedding_lookup")
    applied = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.ones([3]), x)])
    return rows, x, applied


def _with_a_lookup():
    x = _vector()
    rows = tf.gather(x, [0, 2], name="embedding_lookup")
    return rows, x, tf.train.GradientDescentOptimizer(0.1).minimize(rows)


def _with_an_order():
    x = _vector()
    before = x.read_value()
    with tf.control_dependencies([before]):
        added = x.assign_add([1.0, 1.0, 1.0])
    with tf.control_dependencies([added]):
        return before, x.read_value(), tf.no_op()


@pytest.mark.parametrize("build, expected", [
    (_with_a_loss, ([1.0, 2.0, 3.0], 14.0)),             # the variable before the update
    (_with_a_gather, ([0.9, 2.9], [0.9, 1.9, 2.9])),     # both after an update by another gradient
    (_with_a_lookup, ([0.9, 2.9], [0.9, 2.0, 2.9])),     # by its own, which needs the shape only
    (_with_an_order, ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]))])
def test_reads_that_nothing_orders_are_where_the_original_had_them(on_ipu, session, build,
                                                                   expected):
    """Hand-worked from TensorFlow's ReversePostOrder with the nodes' names."""
    results = on_ipu(build)
    with session() as s:
        s.run(tf.global_variables_initializer())
        for got, want in zip(s.run(results), expected):
            np.testing.assert_allclose(got, want, rtol=1e-6)
