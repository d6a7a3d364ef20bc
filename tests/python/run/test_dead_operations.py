"""What no result needs is not compiled, wherever it was built; what has effects is done."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu


def build_dead(x):
    """Operations, or types, that an IPU does not have, and that nothing needs."""
    one = tf.placeholder(tf.float32, [2], name="dead")
    tf.square(one) + x
    tf.placeholder(tf.float32, [None, 3])
    tf.sparse_placeholder(tf.float32)
    with tf.control_dependencies([one]):
        tf.no_op()
    tf.cond(tf.placeholder(tf.bool, []), lambda: x, lambda: 2.0 * one)
    tf.while_loop(lambda i: i < 3.0, lambda i: i + one[0], [0.0])
    tf.strings.join(["a", tf.as_string(x)])
    tf.summary.merge([tf.summary.scalar("mean", tf.reduce_mean(x)), tf.summary.histogram("x", x)])
    tf.numpy_function(np.sin, [x], tf.float32, stateful=False)
    tf.io.decode_jpeg(tf.io.read_file("nowhere"))
    tf.raw_ops.RestoreV2(prefix="nowhere", tensor_names=["x"], shape_and_slices=[""],
                         dtypes=[tf.float32])
    tf.where(x > 0.0)
    tf.unique(x)
    tf.cast(x, tf.float64) * 2.0
    tf.fft(tf.cast(x, tf.complex64))


def build_dead_and_stateful(x):
    """The same of those that a tf.function runs in any case."""
    tf.py_func(np.sin, [x], tf.float32)
    tf.raw_ops.SaveV2(prefix="nowhere", tensor_names=["x"], shape_and_slices=[""], tensors=[x])


def doubled(x):
    build_dead(x)
    if not tf.executing_eagerly() and not tf.get_default_graph()._add_control_dependencies:
        build_dead_and_stateful(x)
    return 2.0 * x


def in_a_computation(x):
    return doubled(x)


def in_a_loop(x):
    return ipu.loops.repeat(3, doubled, [x])


def in_a_loop_of_a_loop(x):
    return ipu.loops.repeat(2, lambda x: ipu.loops.repeat(2, doubled, [x]), [x])


def in_a_while_loop(x):
    return ipu.loops.while_loop(lambda x: x[0] < 8.0, doubled, [x])


def in_tensorflow_s_loop(x):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, doubled(x)), [0, x])[1]


def in_a_branch(x):
    return tf.cond(x[0] > 0.0, lambda: doubled(x), lambda: x)


def in_a_case(x):
    return tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x, lambda: doubled(x)])


def in_a_function(x):
    return tf.function(doubled, autograph=False)(x)


def in_an_outlined_function(x):
    return ipu.outlined_function(doubled)(x)


FACTORS = {in_a_computation: 2, in_a_loop: 8, in_a_loop_of_a_loop: 16, in_a_while_loop: 8,
           in_tensorflow_s_loop: 8, in_a_branch: 2, in_a_case: 2, in_a_function: 2,
           in_an_outlined_function: 2}


def run(program, in_function=False):
    """What a program of [1, 2] gives, and what has become of the variables."""
    x = tf.constant([1.0, 2.0])

    def compiled(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(program, [x])

    results = tf.function(compiled, autograph=False)(x) if in_function else compiled(x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(results), session.run(tf.global_variables())


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("place", FACTORS, ids=lambda place: place.__name__)
def test_what_nothing_needs_is_not_compiled(place, in_function):
    with tf.Graph().as_default():
        (result,), _ = run(place, in_function)
        np.testing.assert_array_equal(result, FACTORS[place] * np.float32([1, 2]))


def test_in_stages_of_a_pipeline_that_trains(devices):
    with tf.Graph().as_default():
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def last(x):
            weight = tf.get_variable("w", initializer=1.0, use_resource=True)
            return tf.reduce_sum(doubled(x) * weight)

        def optimizer_function(loss):
            build_dead(tf.ones([2]))
            return ipu.pipelining_ops.OptimizerFunctionOutput(
                tf.train.GradientDescentOptimizer(0.5), loss)

        devices(2)
        _, (weight,) = run(lambda x: ipu.pipelining_ops.pipeline(
            [doubled, last], 4, inputs=[x], outfeed_queue=outfeed,
            optimizer_function=optimizer_function))
        assert weight == 1.0 - 0.5 * 4 * (4.0 + 8.0)


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("beside_host", [False, True])
@pytest.mark.parametrize("place", ["repeat", "nested", "branch"])
def test_what_a_body_does_is_done(place, beside_host, in_function):
    """Updates, elements and calls of the host, although the body's results do not need them."""
    seen = []
    with tf.Graph().as_default():
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        count = tf.get_variable("count", initializer=0.0, use_resource=True)

        def body(x):
            build_dead(x)
            outfeed.enqueue(x)
            count.assign_add(1.0)
            if beside_host:
                with ipu.scopes.outside_compilation_scope():
                    tf.py_func(lambda x: seen.append(x[0]), [x], [], stateful=True)
            return x + 1.0

        def program(x):
            if place == "branch":
                return tf.cond(x[0] > 0.0, lambda: body(x), lambda: x)
            if place == "repeat":
                return ipu.loops.repeat(6, body, [x])

            def outer(x):
                ipu.loops.repeat(2, body, [x])  # of which nothing is needed
                return x + 1.0

            return ipu.loops.repeat(3, outer, [x])

        x = tf.constant([1.0, 2.0])

        def compiled(x):
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(program, [x])

        results = tf.function(compiled, autograph=False)(x) if in_function else compiled(x)
        elements = outfeed.dequeue()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(results)
            times = {"branch": 1, "repeat": 6, "nested": 6}[place]
            assert session.run(count) == times
            assert len(session.run(elements)) == times
        assert len(seen) == (times if beside_host else 0)


@pytest.mark.parametrize("place", [in_a_computation, in_a_loop, in_a_branch])
def test_updates_by_what_nobody_feeds_are_not_done(place, monkeypatch):
    """Keras's layers make such updates for a model's own inputs, and savers make others."""
    def with_updates(x):
        mean = tf.get_variable("mean", initializer=1.0, use_resource=True)
        mean.assign_sub(tf.reduce_mean(tf.placeholder(tf.float32, [2], name="input")))
        mean.assign(tf.raw_ops.RestoreV2(prefix="nowhere", tensor_names=["mean"],
                                         shape_and_slices=[""], dtypes=[tf.float32])[0])
        mean.assign_add(x[0])
        return 2.0 * x

    monkeypatch.setitem(globals(), "doubled", with_updates)
    with tf.Graph().as_default():
        (result,), (mean,) = run(place)
        np.testing.assert_array_equal(result, FACTORS[place] * np.float32([1, 2]))
        assert mean == 1.0 + sum(2.0 ** i for i in range({2: 1, 8: 3}[FACTORS[place]]))


def test_an_update_that_is_asked_for_needs_what_it_takes():
    with tf.Graph().as_default():
        def program(x):
            mean = tf.get_variable("mean", initializer=1.0, use_resource=True)
            return x, mean.assign(tf.placeholder(tf.float32, [], name="input")).op

        with pytest.raises(tf.errors.InvalidArgumentError, match="input.*Placeholder"):
            run(program)


def test_an_assertion_of_a_body_ends_the_run():
    with tf.Graph().as_default():
        def body(x):
            tf.debugging.Assert(x[0] < 2.0, ["too large"])
            return x + 1.0

        run(lambda x: ipu.loops.repeat(1, body, [x]))
        with pytest.raises(tf.errors.InternalError, match="assertion failed: too large"):
            run(lambda x: ipu.loops.repeat(3, body, [x]))


def test_what_is_needed_is_refused():
    with tf.Graph().as_default():
        def body(x):
            sine = tf.numpy_function(np.sin, [x], tf.float32, stateful=False)
            return x + tf.reshape(sine, [2])

        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="does not support PyFuncStateless at all"):
            run(lambda x: ipu.loops.repeat(3, body, [x]))
