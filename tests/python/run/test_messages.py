"""What is said of programs that cannot run: what and where it is first, and no inner names."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

INNER = re.compile(r"\bn\d+\b|tf2xla|dummy_file_name|\{\{node|root error|__inference")


def placeholder(shape, dtype=tf.float32):
    with tf.device("cpu"):
        return tf.placeholder(dtype, shape)


def said(error, first):
    """Checks that a message begins with `first`, a pattern, and has nothing of the insides."""
    text = str(error.value)
    assert re.match(first, text.splitlines()[0]), text
    assert not INNER.search(text), text
    return text


@pytest.mark.parametrize("name, function", [
    ("boolean_mask/Where", lambda x: tf.boolean_mask(x, x > 2)),
    ("Where", lambda x: tf.where(x > 2)),
    ("Unique", lambda x: tf.unique(x)[0]),
    ("Where", lambda x: tf.reduce_sum(tf.gather(x, tf.where(x > 2)))),
], ids=["boolean_mask", "where", "unique", "inside"])
def test_shape_that_depends_on_values(on_ipu, name, function):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        on_ipu(function, [placeholder([4], tf.int32)])
    text = said(error, rf"{name} \(\w+, defined at .*test_messages\.py:\d+\): the shape of its "
                       "result depends on values")
    assert "An IPU program is static" in text


def test_shape_that_is_computed(on_ipu, session):
    x = placeholder([3])
    y = on_ipu(lambda x: tf.zeros([tf.cast(tf.reduce_sum(x), tf.int32)]), [x])
    with session() as s, pytest.raises(tf.errors.InvalidArgumentError) as error:
        s.run(y, {x: [1, 2, 3]})
    said(error, r"zeros \(Fill, defined at .*test_messages\.py:\d+\): its input number 0 must be")


def test_values_that_only_a_run_knows_leave_nothing_in_the_log(script):
    """Neither where they are integers, which become constants then, nor where that is refused."""
    done = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        x, n = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.int32, [])

        def run(function):
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                result = ipu.ipu_compiler.compile(function, [x, n])
            try:
                print(session.run(result, {x: [1., 2., 3., 4.], n: 1})[0].shape)
            except tf.errors.InvalidArgumentError as error:
                print("must be known" in str(error))

        with tf.Session() as session:
            run(lambda x, n: tf.zeros([2 * n, 3]))
            run(lambda x, n: tf.reshape(x, tf.stack([4 * n, n])))
            run(lambda x, n: tf.tile(x, [n + 1]))
            run(lambda x, n: tf.reduce_sum(x, n - 1))
            run(lambda x, n: tf.random.uniform([n, 2]))
            run(lambda x, n: tf.one_hot([1, 0, 2], n + 4))
            tf.logging.warning("the last fails")
            run(lambda x, n: tf.ones([tf.cast(tf.reduce_sum(x), tf.int32), n]))
    """, TF_CPP_MIN_LOG_LEVEL="0")
    assert done.stdout.splitlines() == [
        "(2, 3)", "(4, 1)", "(8,)", "()", "(1, 2)", "(3, 5)", "True"], done.stderr
    # TensorFlow itself logs the error of the last one from 2.16 on.
    before, own, last = done.stderr.partition("the last fails")
    assert own and "compile-time constant" not in before
    assert tf.__version__ > "2.16" or "compile-time constant" not in last


def test_gradient_of_a_loop_without_a_bound(on_ipu):
    def computation(x):
        y = tf.while_loop(lambda i, a: i < 5, lambda i, a: [i + 1, tf.tanh(a)], [0, x])[1]
        return tf.gradients(y, x)[0]
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        on_ipu(computation, [placeholder([4])])
    said(error, r"gradients/while_grad/.* belongs to a loop .* Pass maximum_iterations")


def test_late_shapes_that_do_not_fit(on_ipu, session):
    x = placeholder(None)
    y = on_ipu(lambda x: tf.matmul(x, tf.ones([3, 3])), [x])
    with session() as s, pytest.raises(tf.errors.InvalidArgumentError) as error:
        s.run(y, {x: np.ones([2, 2])})
    said(error, r"MatMul\w* \(.*test_messages\.py:\d+\): Dimensions must be equal")


def test_errors_of_other_nodes_are_tensorflows(session):
    x = placeholder([None])
    with tf.device("cpu"):
        y = tf.reshape(x, [3])
    with session() as s, pytest.raises(tf.errors.InvalidArgumentError,
                                       match="Graph execution error"):
        s.run(y, {x: [1, 2]})


def test_cycle_counts_are_logged(script):
    done = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        ipu.config.IPUConfig().configure_ipu_system()
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            x = tf.placeholder(tf.float32, [256, 256])
            result = ipu.ipu_compiler.compile(lambda x: x @ x, [x])
        with tf.Session() as session:
            for _ in range(2):
                session.run(result, {x: [[1.] * 256] * 256})
    """, TF_POPLAR_FLAGS="--log_cycle_count=0 --use_ipu_model")
    counts = re.findall(r"Cycle count: (\d+)", done.stderr)
    assert len(counts) == 2 and counts[0] == counts[1] and int(counts[0]) > 0, done.stderr
