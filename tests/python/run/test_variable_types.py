"""Resource variables of every type on the device: inside `compile`, outside, saved and restored.

TensorFlow itself has no kernel of VarHandleOp for int32 on other devices than the CPU; ours is in
src/tf/variables.c.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

pytestmark = pytest.mark.smoke

TYPES = ("int32", "int64", "bool", "uint8", "int8", "uint32", "float16", "float32")
NUMBERS = [one for one in TYPES if one != "bool"]


def _variable(dtype, name="v", shape=(2,)):
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), use_resource=True)


@pytest.mark.parametrize("on_cpu", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_counter(dtype, on_cpu, session, on_ipu):
    """Counted inside `compile` and outside; the compiled part makes a variable of its own too."""
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        counter = _variable(dtype)
        outside = counter.assign_add([1, 1])

    def step():
        own = _variable(dtype, "own", [])
        with tf.control_dependencies([counter.assign_add([2, 3]), own.assign_add(1)]):
            return counter.read_value(), own.read_value()
    inside = on_ipu(step)
    if on_cpu:
        ipu.utils.move_variable_initialization_to_cpu()
    with session() as s:
        s.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(s.run(outside), [1, 1])
        s.run(inside)
        both, own = s.run(inside)
        np.testing.assert_array_equal(both, [5, 7])
        assert own == 2 and both.dtype == own.dtype == dtype
        np.testing.assert_array_equal(s.run(outside), [6, 8])
        np.testing.assert_array_equal(s.run(counter), [6, 8])
    assert "IPU:0" in counter.device


def test_bool(session, on_ipu):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        flag = _variable("bool")
        turned = flag.assign(tf.logical_not(flag))
    inside = on_ipu(lambda: flag.assign(tf.logical_or(flag, [True, False])))
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(inside)
        assert s.run(flag).tolist() == [True, False]
        assert s.run(turned).tolist() == [False, True]


@pytest.mark.parametrize("dtype", TYPES)
def test_saver(dtype, session, tmp_path):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = _variable(dtype)
    with tf.device("cpu"):
        value = tf.placeholder(dtype, [2])
    assign = v.assign(value)
    saver = tf.train.Saver()
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(assign, {value: [1, 0]})
        path = saver.save(s, str(tmp_path / "model"))
        s.run(assign, {value: [0, 1]})
        saver.restore(s, path)
        assert s.run(v).tolist() == [1, 0]
    with session() as s:  # where nothing has initialised it
        saver.restore(s, path)
        assert s.run(v).tolist() == [1, 0]


def test_read_by_ops_on_the_device_and_on_the_cpu(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = _variable("int32")
        on_device = v * 3 + 1
    with tf.device("cpu"):
        on_cpu = v + 10
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(v.assign([1, 2]))
        assert s.run(on_device).tolist() == [4, 7]
        assert s.run(on_cpu).tolist() == [11, 12]


def test_gathered_and_scattered_in_a_compiled_part(session, on_ipu):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = _variable("int32", shape=[4])

    def step(indices):
        with tf.control_dependencies([v.scatter_add(tf.IndexedSlices([5, 6], indices))]):
            return v.sparse_read(indices)
    y = on_ipu(step, [tf.constant([3, 1])])
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert s.run(y)[0].tolist() == [5, 6]
        assert s.run(v).tolist() == [0, 6, 0, 5]


def test_gathered_rows_are_the_result_of_a_run(session):
    """A gather has no kernel, so it is part of a program even where only its result is wanted."""
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = _variable("float32", shape=[4])
        with tf.device("cpu"):
            indices = tf.placeholder(tf.int32, [2])
        rows = v.sparse_read(indices)
        more = rows + 1
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(v.assign([1, 2, 3, 4]))
        assert s.run(rows, {indices: [3, 0]}).tolist() == [4, 1]
        found = s.run([rows, more], {indices: [3, 0]})
        assert [one.tolist() for one in found] == [[4, 1], [5, 2]]


def test_global_step_of_an_optimizer(session, on_ipu):
    def step(x):
        weight = _variable("float32", "w", [])
        count = tf.get_variable("step", [], tf.int32, tf.zeros_initializer(), use_resource=True)
        train = tf.train.GradientDescentOptimizer(1.).minimize((weight - x) ** 2., count)
        with tf.control_dependencies([train]):
            return count.read_value()
    y = on_ipu(step, [np.float32(1)])
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert [s.run(y)[0] for _ in range(3)] == [1, 2, 3]


def test_is_initialized(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = _variable("int32")
        known = v.is_initialized()
        y = v + 1
    with session() as s:
        assert not s.run(known)
        with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
            s.run(y)
        s.run(tf.global_variables_initializer())
        assert s.run(known)


def test_sessions_share_nothing_and_names_tell_apart(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        a, b = _variable("int32", "a"), _variable("int32", "b")
        add = [a.assign_add([1, 1]), b.assign_add([2, 2])]
    with session() as one, session() as other:
        one.run(tf.global_variables_initializer())
        other.run(tf.global_variables_initializer())
        one.run(add)
        assert [value.tolist() for value in one.run([a, b])] == [[1, 1], [2, 2]]
        assert [value.tolist() for value in other.run([a, b])] == [[0, 0], [0, 0]]


def test_in_a_server_whose_job_has_a_name(script):
    done = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        server = tf.train.Server({"trainer": ["localhost:0"]}, job_name="trainer", task_index=0)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            v = tf.get_variable("v", [], tf.int32, tf.zeros_initializer(), use_resource=True)
            add = v.assign_add(3)
        with tf.Session(server.target) as s:
            s.run(v.initializer)
            s.run(add)
            print("value", s.run(v))
        import os, sys
        sys.stdout.flush()
        os._exit(0)
        """)
    assert "value 3" in done.stdout, done.stderr[-2000:]


def test_eager(script):
    """Variables without names, several alive at once."""
    done = script("""
        import tensorflow as tf
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.device("/device:IPU:0"):
            many = [tf.Variable(i) for i in range(3)]
            many[1].assign_add(5)
        print("values", [int(one.numpy()) for one in many], many[1].dtype.name, many[1].device)
        """)
    assert "values [0, 6, 2] int32" in done.stdout and "IPU:0" in done.stdout, done.stderr[-2000:]
