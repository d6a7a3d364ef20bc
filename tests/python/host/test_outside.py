"""outside_compilation_scope, tf.print and tf.Print in compiled programs, against the same on the
CPU."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow as tf2
from tensorflow.python import ipu

DEVICE = "/device:IPU:0"
outside = ipu.scopes.outside_compilation_scope


def compiled(function, *inputs):
    with ipu.scopes.ipu_scope(DEVICE):
        return ipu.ipu_compiler.compile(function, list(inputs))


def run(fetches, feed=None, before=None, **config):
    with tf.Session(config=tf.ConfigProto(**config)) as session:
        session.run(tf.global_variables_initializer())
        if before is not None:
            session.run(before)
        return session.run(fetches, feed)


def on_host(function, *tensors, shape=(), dtype=tf.float32):
    value = tf.numpy_function(
        lambda *arrays: np.asarray(function(*arrays), dtype.as_numpy_dtype), tensors, dtype)
    value.set_shape(shape)
    return value


# ---- Values ----

def test_several_inputs_and_outputs():
    def program(x, n):
        y = x * 2
        with outside():
            total = on_host(lambda a, b: a.sum() + np.float32(b), y, n)
            longest = tf.strings.length(tf.strings.as_string(n))  # no program has strings
        return total + y[0], longest, y

    x, n = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.int32, [])
    results = run(compiled(program, x, n), {x: [1, 2, 3], n: 100})
    np.testing.assert_array_equal(results[0], 114)
    assert results[1] == 3
    np.testing.assert_array_equal(results[2], [2, 4, 6])


def test_scopes_that_depend_on_one_another():
    def program(x):
        with outside():
            a = on_host(lambda v: v + 1, x)
        b = a * 10
        with outside():
            c = on_host(lambda v, w: v * w, b, a)
        return c - x

    assert run(compiled(program, tf.constant(2.)))[0] == 3 * 30 - 2


def test_half_and_integers():
    def program(x, n, flag):
        with outside():
            return x + tf.cast(2, tf.float16), n * 3, tf.logical_not(flag)

    x = tf.constant([1, 2], tf.float16)
    results = run(compiled(program, x, tf.constant(7), tf.constant(True)))
    assert results[0].dtype == np.float16
    np.testing.assert_array_equal(results[0], [3, 4])
    assert results[1] == 21 and not results[2]


def test_function_inside():
    """A loop of TensorFlow's inside the scope runs on the host whole."""
    def program(x):
        with outside():
            return tf.while_loop(lambda v: v < 100., lambda v: on_host(lambda a: a * 2, v), [x])

    assert run(compiled(program, tf.constant(3.)))[0] == 192


# ---- Loops, branches, feeds ----

def test_in_a_loop():
    seen = []

    def look(value):
        seen.append(float(value))
        return value + 1

    def body(x):
        with outside():
            y = on_host(look, x * 2)
        return y

    assert run(compiled(lambda x: ipu.loops.repeat(4, body, [x]), tf.constant(1.))) == [31]
    assert seen == [2, 6, 14, 30]


def test_in_a_branch():
    seen = []

    def noted(value):
        seen.append(float(value))
        return value

    def program(x):
        def yes():
            with outside():
                return on_host(noted, x)
        return tf.cond(x > 0, yes, lambda: -x)

    x = tf.placeholder(tf.float32, [])
    result = compiled(program, x)[0]
    with tf.Session() as session:
        assert [session.run(result, {x: v}) for v in (3, -4, 5)] == [3, 4, 5]
    assert seen == [3, 5]


def test_with_feeds():
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(1, 7, dtype=np.float32)).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(total, x):
        with outside():
            y = on_host(lambda a: a * 100, x)
        return total + y, outfeed.enqueue(y)

    result = compiled(lambda: ipu.loops.repeat(3, body, [0.], infeed))
    dequeued = outfeed.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        assert session.run(result) == [600]
        np.testing.assert_array_equal(session.run(dequeued), [100, 200, 300])
        assert session.run(result) == [1500]


@pytest.mark.parametrize("threads", [1, 0])
def test_replicas(threads, devices):
    devices(4)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32)))

    def body(x):
        with outside():
            y = on_host(lambda a: a + 0.5, x)
        return outfeed.enqueue(y)

    result = compiled(lambda: ipu.loops.repeat(2, body, [], infeed))
    dequeued = outfeed.dequeue()
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=threads)) as session:
        session.run(infeed.initializer)
        session.run(result)
        np.testing.assert_array_equal(session.run(dequeued),
                                      np.arange(8).reshape(2, 4) + 0.5)


# ---- What is outside of the program ----

@pytest.mark.parametrize("threads", [1, 0])
def test_variables_of_the_cpu(threads):
    with tf.device("cpu"):
        counter = tf.get_variable("counter", [], tf.float32, tf.zeros_initializer(),
                                  use_resource=True)

    def program(x):
        with outside():
            with tf.control_dependencies([counter.assign_add(x)]):
                now = counter.read_value()
        return now * 2

    x = tf.placeholder(tf.float32, [])
    result = compiled(program, x)[0]
    config = tf.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True)
    with tf.Session(config=config) as session, tf.Session(config=config) as other:
        for one in (session, other):
            one.run(counter.initializer)
        assert session.run(result, {x: 3}) == 6
        assert session.run(result, {x: 4}) == 14
        assert session.run(counter) == 7
        assert other.run(result, {x: 1}) == 2  # each session has its own


def test_a_trace_has_the_operations_of_the_host():
    """Once for each time that the program calls them, beside those of the run itself."""
    with tf.device("cpu"):
        counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer(),
                                  use_resource=True)

    def body(x):
        with outside():
            with tf.control_dependencies([counter.assign_add(x, name="count")]):
                return counter.read_value()

    result = compiled(lambda: ipu.loops.repeat(3, body, [1.]))
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(counter.initializer)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(result, options=options, run_metadata=metadata) == [4]
        plain = tf.RunMetadata()
        session.run(result, run_metadata=plain)
    assert not plain.HasField("step_stats")
    nodes = {one.device.rpartition("/")[2]: [node.node_name for node in one.node_stats]
             for one in metadata.step_stats.dev_stats}
    assert len(nodes) == len(metadata.step_stats.dev_stats)
    assert sum(name.endswith("/count") for name in nodes["device:CPU:0"]) == 3
    assert any("ipu_launch" in name for name in nodes["device:IPU:0"])


def test_lookup_table():
    with tf.device("cpu"):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            tf.constant(["1", "2"]), tf.constant([10., 20.])), -1.)

    def program(n):
        with outside():
            return table.lookup(tf.strings.as_string(n)) + 0.

    n = tf.constant([2, 1, 7])
    result = run(compiled(program, n), before=tf.tables_initializer())
    np.testing.assert_array_equal(result[0], [20, 10, -1])


def test_summary_writer(tmp_path):
    pytest.importorskip("tensorboard")  # which tf.summary.scalar needs
    with tf.device("cpu"):
        writer = tf2.summary.create_file_writer(str(tmp_path))

    def program(x):
        y = x * x
        with outside():
            with writer.as_default():
                done = tf2.summary.scalar("y", y, step=tf.constant(5, tf.int64))
        with tf.control_dependencies([done]):
            return tf.identity(y)

    x = tf.placeholder(tf.float32, [])
    result = compiled(program, x)
    with tf.Session() as session:
        session.run(writer.init())
        assert session.run(result, {x: 3})[0] == 9
        session.run(writer.flush())
    events = [one for path in tmp_path.iterdir()
              for one in tf.train.summary_iterator(str(path)) if one.summary.value]
    assert [(one.step, one.summary.value[0].tag) for one in events] == [(5, "outside/y")]
    assert tf.make_ndarray(events[0].summary.value[0].tensor) == 9


def test_variable_of_the_ipu_is_refused():
    def program():
        variable = tf.get_variable("v", [], use_resource=True)
        with outside():
            return variable + 1.

    with pytest.raises(tf.errors.InvalidArgumentError, match="uses the variable .* of an IPU"):
        compiled(program)


# ---- In a tf.function ----

def test_in_a_function():
    def make():
        seen = []

        def program(x):
            with outside():
                return on_host(lambda a: (seen.append(1), a + 1)[1], x * 3)

        @tf2.function(autograph=False)
        def function(x):
            return compiled(program, x)[0]

        return function, seen

    from tensorflow.python.eager import context
    with context.eager_mode():
        function, seen = make()
        assert function(tf.constant(2.)).numpy() == 7
        assert function(tf.constant(3.)).numpy() == 10
        assert len(seen) == 2
        variable = tf2.Variable(1., dtype=tf.float32)

        @tf2.function(autograph=False)
        def counted(x):
            def program(x):
                with outside():
                    return variable.assign_add(x) * 1.
            return compiled(program, x)[0]

        assert counted(tf.constant(2.)).numpy() == 3
        assert counted(tf.constant(4.)).numpy() == 7
        assert variable.numpy() == 7


# ---- Gradients ----

def _forward(x, w):
    y = x * w
    with outside():
        z = tf.sin(y) * w
        z = tf.square(z)
    return tf.reduce_sum(z * x)


@pytest.mark.parametrize("tape", [False, True])
def test_gradients(tape):
    x = np.array([0.3, -1.2, 2.], np.float32)

    def with_gradients(x, w):
        if not tape:
            loss = _forward(x, w)
            return [loss, *tf.gradients(loss, [x, w])]
        with tf.GradientTape() as one:
            one.watch([x, w])
            loss = _forward(x, w)
        return [loss, *one.gradient(loss, [x, w])]

    inputs = tf.constant(x), tf.constant(1.5)
    found = run(compiled(with_gradients, *inputs))
    w = np.float32(1.5)
    y = x * w
    dz = 2 * np.sin(y) * w * x  # d loss / d (sin(y) w)
    expected = [np.sum((np.sin(y) * w) ** 2 * x),
                (np.sin(y) * w) ** 2 + dz * w * np.cos(y) * w,
                np.sum(dz * np.sin(y)) + np.sum(dz * w * np.cos(y) * x)]
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_gradients_are_built_outside():
    grown = []

    @tf.custom_gradient
    def host_op(x):
        def gradient(dy):
            return on_host(lambda a: (grown.append(1), a * 7)[1], dy)
        return on_host(lambda a: a + 1, x), gradient

    def program(x):
        with outside():
            y = host_op(x * 2)
        return tf.gradients(y * 3, [x])

    assert run(compiled(program, tf.constant(1.)))[0] == 3 * 7 * 2
    assert grown == [1]


def test_gradients_through_a_loop():
    def body(x):
        with outside():
            y = tf.square(x)
        return y

    def program(x):
        y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, body(v)), (0, x),
                          maximum_iterations=3)[1]
        return [y, *tf.gradients(y, [x])]

    np.testing.assert_allclose(run(compiled(program, tf.constant(1.1))),
                               [1.1 ** 8, 8 * 1.1 ** 7], rtol=1e-5)


# ---- Printing ----

def test_print(capfd):
    def program(x):
        y = x + 1
        with tf.control_dependencies([tf.print("first", x)]):
            y = tf.Print(y, [y, x], "second ")
        return tf.identity(y), tf.print("third", y[:2], summarize=-1)

    x = tf.placeholder(tf.int32, [None])
    assert list(run(compiled(program, x), {x: [4, 5, 6]})[0]) == [5, 6, 7]
    printed = [line for line in capfd.readouterr().err.splitlines()
               if line.startswith(("first", "second", "third"))]
    assert printed == ["first [4 5 6]", "second [5 6 7][4 5 6]", "third [5 6]"]


def test_print_in_a_scope_needs_nobody(capfd):
    def program(x):
        with outside():
            tf.print("seen", x)
        return x

    run(compiled(program, tf.constant(4.)))
    assert "seen 4" in capfd.readouterr().err


def test_print_in_a_loop_keeps_the_order(capfd):
    def body(i):
        first = tf.print("a", i)
        second = tf.print("b", i)
        return i + 1, first, second

    run(compiled(lambda: ipu.loops.repeat(3, body, [0])))
    printed = [line for line in capfd.readouterr().err.splitlines() if line[:2] in ("a ", "b ")]
    assert printed == ["a 0", "b 0", "a 1", "b 1", "a 2", "b 2"]


def test_print_tensor(capfd):
    def program(x):
        return x, ipu.internal_ops.print_tensor(x, "weights")

    run(compiled(program, tf.constant([1., 2.])))
    assert "weights: [1 2]" in capfd.readouterr().err


def test_gradient_of_print():
    def program(x):
        y = tf.Print(x * x, [x])
        return tf.gradients(y, [x])

    assert run(compiled(program, tf.constant(3.)))[0] == 6


# ---- Failures ----

def test_an_error_of_the_host_arrives():
    def refuse(value):
        raise ValueError("seven is not eight")

    def program(x):
        with outside():
            return on_host(refuse, x)  # this line

    with pytest.raises(tf.errors.OpError) as caught:
        run(compiled(program, tf.constant(7.)))
    assert "seven is not eight" in str(caught.value)
    assert __file__ in str(caught.value)


def test_assert_inside_checks():
    def program(x):
        with outside():
            with tf.control_dependencies([tf.debugging.assert_positive(x, message="not so")]):
                return tf.identity(x)

    x = tf.placeholder(tf.float32, [])
    result = compiled(program, x)
    assert run(result, {x: 1}) == [1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not so"):
        run(result, {x: -1})


def test_unknown_shapes_are_refused():
    def program(x):
        with outside():
            return tf.numpy_function(lambda a: a, [x], tf.float32)

    with pytest.raises(tf.errors.InvalidArgumentError, match="its shape must be known"):
        compiled(program, tf.constant(1.))


def test_other_shapes_are_refused():
    def program(x):
        with outside():
            return on_host(lambda a: np.zeros(3, np.float32), x, shape=[2])

    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"has the shape \[3\], and the program was compiled for \[2\]"):
        run(compiled(program, tf.constant(1.)))


def test_strings_are_refused():
    def program(x):
        with outside():
            text = tf.strings.as_string(x)
        return tf.strings.length(text)

    with pytest.raises(tf.errors.InvalidArgumentError, match="gives string to the compiled"):
        compiled(program, tf.constant(1.))


def test_python_function_in_the_program_is_refused_by_name():
    with pytest.raises(tf.errors.InvalidArgumentError, match="PyFunc"):
        compiled(lambda x: on_host(lambda a: a, x), tf.constant(1.))


def test_program_after_a_failure():
    state = {"fails": True}

    def sometimes(value):
        if state["fails"]:
            raise RuntimeError("not now")
        return value * 2

    def program(x):
        with outside():
            return on_host(sometimes, x)

    result = compiled(program, tf.constant(4.))
    with tf.Session() as session:
        with pytest.raises(tf.errors.OpError, match="not now"):
            session.run(result)
        state["fails"] = False
        assert session.run(result) == [8]
