"""A tf.function that says jit_compile=True is one program, and gives what TensorFlow gives."""

import numpy as np
import pytest
import tensorflow as tf

X = np.float32([[1, -2, 3], [0.5, 4, -1]])


# ---- What TensorFlow's control flow becomes ----

def for_range(x):
    total = tf.zeros_like(x)
    for i in tf.range(7):
        total += tf.cast(i, tf.float32) * x
    return total


def for_tensor(x):
    total = 0.
    for row in x:
        total += tf.reduce_max(row)
    return total


def while_and_break(x):
    i = tf.constant(0)
    while i < 20:
        i += 1
        if i % 3 == 0:
            continue
        if tf.reduce_sum(x) > 100.:
            break
        x = x * 1.5
    return x, i


def branches(x):
    if tf.reduce_sum(x) > 0.:
        y = x * 2.
    elif tf.reduce_sum(x) < -10.:
        y = x
    else:
        y = -x
    return tf.where(y > 1., y, 0.)


def while_loop(x):
    return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y) + 1.), [0, x])


def repeat(x):
    from tensorflow.python import ipu
    return ipu.loops.repeat(3, lambda y: y * 2., [x])


def tensor_array(x):
    array = tf.TensorArray(tf.float32, size=4)
    for i in tf.range(4):
        array = array.write(i, tf.reduce_sum(x) * tf.cast(i, tf.float32))
    return array.stack()


def lists(x):
    rows = []
    for i in range(2):
        rows.append(x[i] * float(i + 1))
    return {"rows": rows, "none": None}


def cases(x):
    return [tf.switch_case(tf.constant(i), [lambda: x, lambda: x * 2., lambda: x * 3.])
            for i in range(3)]


def tape_of_loop(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in tf.range(3):
            y = tf.sin(y) * x
        if tf.reduce_sum(y) > 0.:
            y = y * y
    return tape.gradient(y, x)


def second_order(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(x ** 3)
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)


@tf.custom_gradient
def _square(x):
    return x * x, lambda gradient: gradient * 100.


def custom_gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _square(x)
    return tape.gradient(y, x) * x


@tf.function(jit_compile=True)
def _inner(x, factor=2.):
    return tf.nn.relu(x) * factor


@tf.function
def _plain_inner(x):
    return _inner(x, factor=3.) + 1.


def nested(x):
    return _inner(x) + _plain_inner(x)


def integers(x):
    return tf.shape(x), tf.argmax(x, 1), tf.cast(x, tf.int32) + 1


FUNCTIONS = [for_range, for_tensor, while_and_break, branches, while_loop, repeat,
             tensor_array, lists, cases, tape_of_loop, second_order, custom_gradient, nested,
             integers]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_as_tensorflow_in_one_launch(strategy, events, function):
    x = tf.constant(X)
    expected = tf.function(function)(x)
    compiled = tf.function(function, jit_compile=True)
    events()
    found = strategy.run(compiled, args=(x,))
    assert events().count("EXECUTE") == 1
    tf.nest.assert_same_structure(found, expected)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        if b is not None:
            assert a.dtype == b.dtype and a.device.endswith("device:IPU:0")
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


# ---- Calls ----

@pytest.mark.parametrize("keyword", ["jit_compile", "experimental_compile"])
def test_called_under_a_device(devices, events, keyword):
    devices(1)
    function = tf.function(for_range, **{keyword: True})
    with tf.device("/device:IPU:0"):
        events()
        for _ in range(3):
            value = function(tf.constant(X))
        assert events().count("EXECUTE") == 3
    assert value.device.endswith("device:IPU:0")
    np.testing.assert_allclose(value, 21 * X)
    with tf.device("/device:CPU:0"):
        np.testing.assert_allclose(function(tf.constant(X)), 21 * X)
    assert events() == [] and function.experimental_get_tracing_count() == 1


def test_ops_run_one_by_one(devices, events):
    devices(1)
    events()
    with tf.device("/device:IPU:0"):
        y = tf.matmul([[1., 2., 3.], [4., 5., 6.]], [[1., 2.], [3., 4.], [5., 6.]])
        z = y + 1.
        shape = tf.shape(y)
    assert events().count("EXECUTE") == 2 and z.device.endswith("IPU:0")
    np.testing.assert_array_equal(z, [[23, 29], [50, 65]])
    np.testing.assert_array_equal(shape, [2, 2])


def test_variables_of_functions_and_methods(strategy):
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = None

        @tf.function(jit_compile=True)
        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable(tf.ones([3, 2]), name="w")
            self.w.assign_add(tf.ones([3, 2]))
            return x @ self.w

    with strategy.scope():
        layer = Dense()
        for step in range(1, 4):
            np.testing.assert_allclose(strategy.run(layer.__call__, args=(X,)),
                                       X @ np.full([3, 2], 1. + step))
    assert layer.w.device.endswith("device:IPU:0")
    np.testing.assert_array_equal(layer.w, np.full([3, 2], 4.))


def test_concrete_functions(strategy, events):
    function = tf.function(branches, jit_compile=True)
    concrete = function.get_concrete_function(tf.TensorSpec([2, 3], tf.float32))
    plain = tf.function(branches).get_concrete_function(tf.TensorSpec([2, 3], tf.float32))
    expected = tf.function(branches)(tf.constant(X))
    for one in (concrete, plain):
        events()
        np.testing.assert_allclose(strategy.run(one, args=(tf.constant(X),)), expected)
        assert events().count("EXECUTE") == 1
    with tf.device("/device:IPU:0"):
        np.testing.assert_allclose(concrete(tf.constant(X)), expected)


def test_retracing(strategy):
    traces = []

    @tf.function(jit_compile=True)
    def function(x, n=1, *, flag=False):
        traces.append((x.shape, n, flag))
        return x * float(n)

    for shape in ([2], [2], [3]):
        strategy.run(function, args=(tf.ones(shape),))
    assert len(traces) == 2
    strategy.run(function, args=(tf.ones([3]), 2))
    strategy.run(function, args=[tf.ones([3])], kwargs={"flag": True, "n": 2})
    strategy.run(function, args=[tf.ones([3])], kwargs={"flag": True, "n": 2})
    assert len(traces) == 4 == function.experimental_get_tracing_count()


def test_shapes_of_a_signature_are_compiled_as_they_come(strategy):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None], tf.float32)])
    def function(x):
        return tf.reduce_sum(x) * 2., tf.shape(x)

    for count in (2, 3):
        total, shape = strategy.run(function, args=(tf.ones([count]),))
        assert float(total) == 2 * count and shape.numpy().tolist() == [count]
    assert function.experimental_get_tracing_count() == 1


def test_a_tape_outside(strategy, events):
    with strategy.scope():
        v = tf.Variable(3.)
    function = tf.function(lambda x: tf.reduce_sum(tf.nn.relu(x) * v), jit_compile=True)
    with tf.device("/device:IPU:0"):
        events()
        with tf.GradientTape() as tape:
            x = tf.constant(X)
            tape.watch(x)
            y = function(x)
        gradients = tape.gradient(y, [x, v])
        assert events().count("EXECUTE") == 2  # forward, backward
    np.testing.assert_allclose(gradients[0], 3. * (X > 0))
    np.testing.assert_allclose(gradients[1], np.maximum(X, 0).sum())


def test_composite_arguments(strategy):
    @tf.function(jit_compile=True)
    def function(slices, ragged_free):
        return tf.convert_to_tensor(slices) + ragged_free["a"], slices

    slices = tf.IndexedSlices(tf.constant([[1., 2.]]), tf.constant([1]), tf.constant([3, 2]))
    dense, same = strategy.run(function, args=(slices, {"a": tf.constant(1.)}))
    np.testing.assert_array_equal(dense, [[1, 1], [2, 3], [1, 1]])
    assert isinstance(same, tf.IndexedSlices) and same.indices.numpy().tolist() == [1]


def test_functions_in_functions_that_are_not_compiled(strategy, events):
    @tf.function
    def outer(x):
        for _ in tf.range(2):
            x = strategy.run(_inner, args=(x,))
        return strategy.run(lambda y: tf.exp(y) + 1., args=(x,)), tf.strings.as_string(x[0, 0])

    value, text = outer(tf.constant(X))
    np.testing.assert_allclose(value, np.exp(4 * np.maximum(X, 0)) + 1., rtol=1e-5)
    assert text.numpy() == b"4.000000" and events().count("EXECUTE") >= 3


# ---- What cannot be ----

def test_what_an_ipu_has_not(strategy):
    def text(x):
        return tf.strings.length(tf.strings.as_string(x))  # line of AsString

    line = text.__code__.co_firstlineno + 1
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=rf"operation AsString \(defined at .*case_programs.py:{line}\)"):
        strategy.run(tf.function(text, jit_compile=True), args=(tf.constant(X),))

    def dynamic(x):
        return tf.unique(x)[0]

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Unique, defined at .*depends on"):
        strategy.run(tf.function(dynamic, jit_compile=True), args=(tf.constant(X[0]),))


def test_lists_of_a_gradient_do_not_leave_a_program(strategy):
    function = tf.function(for_range, jit_compile=True)
    with tf.device("/device:IPU:0"), tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        tape_of = tf.function(lambda x: tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y)), [0, x])[1], jit_compile=True)
        with pytest.raises(tf.errors.UnimplementedError, match="put the tape into the function"):
            tape_of(x)
    np.testing.assert_allclose(strategy.run(function, args=(tf.constant(X),)), 21 * X)


def test_errors_of_the_program_and_of_tracing(strategy):
    @tf.function(jit_compile=True)
    def checked(x):
        tf.debugging.assert_greater(x, 0.)
        return x

    assert float(strategy.run(checked, args=(tf.constant(1.),))) == 1
    with pytest.raises(tf.errors.OpError) as error:
        strategy.run(checked, args=(tf.constant(-1.),))
    assert error.value.message.startswith("assertion failed")
    assert "(while running checked)" in error.value.message
    assert float(strategy.run(checked, args=(tf.constant(2.),))) == 2

    @tf.function(jit_compile=True)
    def failing(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        strategy.run(failing, args=(tf.constant(1.),))


def test_sums_over_mini_batches_are_for_variables(strategy):
    from tensorflow.compiler.plugin.poplar.ops import gen_poputil_ops

    @tf.function(jit_compile=True)
    def looped(x):
        def body(i, x):
            total = gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones_like(x), 5)
            return i + 1, x + total

        return tf.while_loop(lambda i, x: i < 10, body, (0, x))[1]

    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="^The .*IpuStatefulGradientAccumulate op"):
        strategy.run(looped, [tf.constant([10.])])


def test_an_error_of_several_nodes_is_said_once():
    from tremula.tf.functions import hooks
    where = 'Detected at node \'%s\' defined at (most recent call last):\n  File "a.py", line 1\n\n'
    said = "  (%d) OUT_OF_RANGE:  The dataset\nis at its end.\n\t [[{{node a}}]]\n\t [[b/_4]]\n"
    text = "Graph execution error:\n\n" + where % "a"
    assert hooks._message_in(text + "Too long\n\t [[{{node a}}]]") == "Too long"
    text += where % "b" + "2 root error(s) found.\n" + said % 0 + said % 1
    assert hooks._message_in(text + "0 successful operations.") == "The dataset\nis at its end."
    assert hooks._message_in("Another error: 2 root error(s) found.") == ""


def test_parts_on_the_host(strategy, ipu, capfd):
    @tf.function(jit_compile=True)
    def function(x):
        with ipu.scopes.outside_compilation_scope():
            y = tf.py_function(lambda a: a * 10., [x], tf.float32)
            y.set_shape(x.shape)
        tf.print("seen", tf.reduce_sum(y))
        return y + 1.

    np.testing.assert_allclose(strategy.run(function, args=(tf.constant(X),)), X * 10 + 1)
    assert "seen 55" in capfd.readouterr().err


def test_tensors_that_are_sent_to_the_host(strategy):
    from tensorflow.compiler.plugin.poplar.ops import gen_sendrecv_ops
    names = {"tensor_name": "x", "send_device": "/device:IPU:0", "send_device_incarnation": 0,
             "recv_device": "/device:CPU:0"}

    @tf.function(jit_compile=True)
    def step(x):
        for _ in tf.range(2):
            gen_sendrecv_ops.ipu_send_to_host(x, **names)
            x += 1.
        return x

    assert float(strategy.run(step, [tf.constant(3.)])) == 5.
    assert [float(gen_sendrecv_ops.ipu_recv_at_host(tf.float32, **names)) for _ in "12"] == [3., 4.]


def test_parts_on_the_host_take_what_is_fed(strategy, ipu):
    """In a loop, a part on the host whose input is a custom call of the program itself."""
    @tf.function(jit_compile=True)
    def function(iterator):
        total = 0.
        for _ in tf.range(3):
            x = next(iterator)
            with ipu.scopes.outside_compilation_scope():
                y = x * 10.
            total += y
        return total

    with strategy.scope():
        iterator = iter(tf.data.Dataset.from_tensor_slices([1., 2., 4.]).repeat())
        assert strategy.run(function, args=(iterator,)).numpy() == 70


def test_pipelines(ipu, devices):
    from tensorflow.python.ipu import pipelining_ops
    devices(2)
    strategy = ipu.ipu_strategy.IPUStrategy()
    dataset = tf.data.Dataset.from_tensors(tf.ones([2, 3])).repeat()
    with strategy.scope():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
        infeed.initializer  # pylint: disable=pointless-statement
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        w1, w2 = tf.Variable(tf.ones([3, 4]) * .1), tf.Variable(tf.ones([4, 1]) * .2)
        optimizer = tf.keras.optimizers.SGD(.1)

    def loss(x):
        return tf.reduce_sum((x @ w2 - 1.) ** 2)

    def update(loss):
        return pipelining_ops.OptimizerFunctionOutput(optimizer, loss, variables=[w1, w2])

    @tf.function(jit_compile=True)
    def step():
        pipelining_ops.pipeline([lambda x: x @ w1, loss], 4, infeed_queue=infeed,
                                outfeed_queue=outfeed, optimizer_function=update)

    with tf.GradientTape() as tape:
        first = loss(tf.ones([2, 3]) @ w1)
    expected = [w - .4 * g for w, g in zip([w1, w2], tape.gradient(first, [w1, w2]))]
    strategy.run(step)
    for variable, value in zip([w1, w2], expected):
        np.testing.assert_allclose(variable, value, rtol=1e-5)
    np.testing.assert_allclose(outfeed.dequeue()[0], [float(first)] * 4, rtol=1e-6)


@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("last, pick", [
    (lambda x: x + 1., lambda out: out),
    (lambda x: [x + 1.], lambda out: out[0]),
    (lambda x: (x, x + 1.), lambda out: out[1]),
    (lambda x: {"a": x + 1.}, lambda out: out["a"])])
def test_what_a_pipeline_without_optimizer_feeds_out(ipu, devices, last, pick, accumulates):
    """The structure that the last stage returns: one tensor is no list of one."""
    from tensorflow.python.ipu import pipelining_ops
    devices(2)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(8).map(
            lambda x: tf.cast(x, tf.float32)))
        infeed.initializer  # pylint: disable=pointless-statement
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def step():
        pipelining_ops.pipeline([lambda x: x * 2., last], 4, infeed_queue=infeed,
                                outfeed_queue=outfeed, repeat_count=2,
                                accumulate_outfeed=accumulates)

    strategy.run(step)
    found = pick(outfeed.dequeue())
    assert found.numpy().tolist() == ([16., 48.] if accumulates else [1. + 2 * i for i in range(8)])
