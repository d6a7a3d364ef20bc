"""experimental_application_compile_op and embedded_runtime."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

compile_op = ipu.application_compile_op.experimental_application_compile_op
runtime = ipu.embedded_runtime


def queues():
    dataset = tf.data.Dataset.from_tensors(np.zeros(2, np.float32)).repeat()
    return ipu.ipu_infeed_queue.IPUInfeedQueue(dataset), ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def model():
    infeed, outfeed = queues()

    def body(x):
        w = tf.get_variable("w", [2], tf.float32, tf.constant_initializer([2., 3.]))
        return outfeed.enqueue([x * w, tf.reduce_sum(x)])

    return ipu.loops.repeat(3, body, [], infeed)


@pytest.mark.parametrize("freeze", [True, False])
def test_feeds(tmp_path, freeze):
    path = str(tmp_path / "model.poplar_exec")
    compiled = compile_op(model, output_path=path, freeze_variables=freeze)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(compiled) == path.encode()
    given = [] if freeze else [tf.constant([10., 20.])]
    context = runtime.embedded_runtime_start(path, given, f"feeds_{freeze}")
    assert context.output_types() == [tf.float32, tf.float32]
    assert len(context.signature().inputs) == len(given)
    x = tf.placeholder(tf.float32, [2])
    outputs = runtime.embedded_runtime_call([x], context)
    stop = runtime.embedded_runtime_stop(context)
    w = [2, 3] if freeze else [10, 20]
    with tf.Session() as session:
        for i in range(7):  # more than a run of the program
            product, total = session.run(outputs, {x: [i, 1]})
            np.testing.assert_array_equal(product, [i * w[0], w[1]])
            assert total == i + 1
        session.run(stop)


def test_variables_that_change(tmp_path):
    def counting():
        infeed, outfeed = queues()

        def body(x):
            count = tf.get_variable("count", [], tf.float32, tf.zeros_initializer(),
                                    use_resource=True)
            with tf.control_dependencies([count.assign_add(1.)]):
                return outfeed.enqueue(x + count.read_value())

        return ipu.loops.repeat(2, body, [], infeed)

    path = str(tmp_path / "model")
    compiled = compile_op(counting, output_path=path, freeze_variables=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(compiled)
        context = runtime.embedded_runtime_start(path, [], "counting")
        outputs = runtime.embedded_runtime_call([tf.zeros([2])], context)
        assert [session.run(outputs)[0][0] for _ in range(5)] == [1, 2, 3, 4, 5]
        session.run(runtime.embedded_runtime_stop(context))


def test_variables_by_name_and_generated_operations(tmp_path):
    """Variables are inputs in the order in which they are made; the inner operations run the file
    too."""
    from tensorflow.compiler.plugin.poplar.ops import gen_application_runtime

    def two():
        infeed, outfeed = queues()

        def body(x):
            later, first = (tf.get_variable(name, [], tf.float32, use_resource=True)
                            for name in ("b/later", "a/first"))
            return outfeed.enqueue(x * later + first)

        return ipu.loops.repeat(2, body, [], infeed)

    path = str(tmp_path / "model")
    with tf.Session() as session:
        compiled = compile_op(two, output_path=path)
        session.run(tf.global_variables_initializer())
        session.run(compiled)
        started = gen_application_runtime.application_runtime(
            [tf.constant(3.), tf.constant(10.)], path, "two")
        result = gen_application_runtime.application_call(
            [tf.constant([1., 2.])], [tf.float32], "two", started)
        np.testing.assert_array_equal(session.run(result)[0], [13, 16])
        with pytest.raises(Exception, match=r"input tensor with name 'XLA_Args/b/later'"):
            runtime.embedded_runtime_start(path, {"XLA_Args/a/first": tf.constant(1.)}, "no")
        with pytest.raises(Exception, match=(
                r"Mismatched input shape at position 1 \('XLA_Args/a/first'\). Expected \[\], but "
                r"input 1 has shape \[2, 3\].")):
            runtime.embedded_runtime_start(
                path, {"XLA_Args/a/first": tf.zeros([2, 3]), "XLA_Args/b/later": 1.}, "no")
        with pytest.raises(tf.errors.OpError, match="Failed to open file for writing"):
            session.run(compile_op(model, output_path=str(tmp_path / "none" / "model")))
        runtime.applications.stop("two")


def test_without_feeds(tmp_path):
    v = tf.placeholder(tf.float32, [2])
    compiled = compile_op(lambda x: x * x, inputs=[v])
    with tf.Session() as session:
        path = session.run(compiled, {v: np.zeros(2)}).decode()
        outputs, _ = runtime.embedded_runtime_start_and_call(
            path, [tf.constant([3., 4.])], [], "square")
        np.testing.assert_array_equal(session.run(outputs)[0], [9, 16])


def test_eager(tmp_path):
    """Eager tensors are constants, as are those of a graph."""
    from tensorflow.python.eager import context as eager
    with eager.eager_mode():
        path = compile_op(lambda x: x + 1., inputs=[tf.constant([1., 2.])],
                          output_path=str(tmp_path / "model"))
        outputs, context = runtime.embedded_runtime_start_and_call(path, [], [], "eager")
        np.testing.assert_array_equal(outputs[0], [2, 3])
        runtime.embedded_runtime_stop(context)


def test_constants_are_no_inputs(tmp_path):
    captured = tf.constant([3., 4.])
    x = tf.placeholder(tf.float32, [2])
    compiled = compile_op(lambda x, two: x * two + captured, inputs=[x, 2.])
    with tf.Session() as session:
        path = session.run(compiled, {x: [0, 0]}).decode()
        outputs, context = runtime.embedded_runtime_start_and_call(
            path, [tf.constant([1., 2.])], [], "constants")
        assert [one.name for one in context.signature().inputs] == ["XLA_Args/Placeholder"]
        np.testing.assert_array_equal(session.run(outputs)[0], [5, 8])


@pytest.fixture
def configured():
    """Configures the system as configured(config) wants."""
    def configure(change):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        change(config)
        config.configure_ipu_system()

    yield configure
    ipu.config.reset_ipu_configuration()


def _never(config):
    config.device_connection.type = ipu.config.DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"


@pytest.mark.parametrize("freeze", [True, False])
def test_without_a_connection(configured, freeze):
    """The variables that the function makes are the CPU's, which gives them their values."""
    configured(_never)
    with tf.Graph().as_default(), tf.Session() as session:
        compiled = compile_op(model, freeze_variables=freeze)
        session.run(tf.global_variables_initializer())
        path = session.run(compiled).decode()
    context = runtime.embedded_runtime_start(
        path, [] if freeze else [tf.constant([2., 3.])], f"never_{freeze}")
    outputs = runtime.embedded_runtime_call([tf.constant([5., 1.])], context)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(outputs)[0], [10, 3])
        session.run(runtime.embedded_runtime_stop(context))
    with tf.Graph().as_default(), tf.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            placed = compile_op(model, freeze_variables=freeze)
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="Cannot assign a device for operation application_compile"):
            session.run(placed)


def _divides_by_zero(config):
    config.floating_point_behaviour.div0 = True


def test_floating_point_behaviour(configured):
    """What holds is the configuration in which it was compiled."""
    infeed, outfeed = queues()
    configured(_divides_by_zero)
    with tf.Session() as session:
        path = session.run(compile_op(lambda: ipu.loops.repeat(
            4, lambda x: outfeed.enqueue(12. / x), [], infeed))).decode()
        ipu.config.reset_ipu_configuration()
        context = runtime.embedded_runtime_start(path, [], "division")
        x = tf.placeholder(tf.float32, [2])
        outputs = runtime.embedded_runtime_call([x], context)
        np.testing.assert_array_equal(session.run(outputs, {x: [2, 3]})[0], [6, 4])
        with pytest.raises(tf.errors.InternalError, match=(
                r"(?s)\[Poplar\]\[Execute engine\] application_runtime_error: "
                r"\[Recovery action: IPU_RESET\] Tiles in excepted state.*FP_DIV0.*"
                r"IPU will be reset the next time a program is executed\.")):
            session.run(outputs, {x: [0, 1]})


def test_errors_in_eager_mode_have_the_same_kind(configured):
    from tensorflow.python.eager import context as eager
    with eager.eager_mode():
        configured(_divides_by_zero)
        path = compile_op(lambda: tf.constant([1., 2.]) / tf.get_variable(
            "d", [2], tf.float32, use_resource=True))
        _, context = runtime.embedded_runtime_start_and_call(
            path, [tf.constant([2., 4.])], [], "eager_one")
        runtime.embedded_runtime_stop(context)
        with pytest.raises(tf.errors.InternalError, match=r"\[Poplar\].*FP_DIV0"):
            runtime.embedded_runtime_start_and_call(path, [tf.zeros([2])], [], "eager_two")


def _multi_conv_of_an_unknown_option(x):
    return ipu.nn_ops.multi_conv(lambda x: x + 1., options={"invalidFlag": "1"})(x)


@pytest.mark.parametrize("kind, message, function, dtype", [
    (tf.errors.InvalidArgumentError, "Detected unsupported operations when trying to compile graph",
     lambda x: x * x, tf.float64),
    (tf.errors.InvalidArgumentError, "Detected unsupported operations when trying to compile graph",
     lambda x: tf.unique(x)[0], tf.float32),
    (tf.errors.InternalError, "invalid_option: Unrecognised option 'invalidFlag'",
     _multi_conv_of_an_unknown_option, tf.float32)])
def test_what_cannot_be_compiled_fails_when_it_is(kind, message, function, dtype):
    """As in the original, where building the operation compiles nothing."""
    x = tf.placeholder(dtype, [2])
    compiled = compile_op(function, inputs=[x])
    with tf.Session() as session, pytest.raises(kind, match=message):
        session.run(compiled, {x: [0, 1]})


def _print(x):
    tf.print(x)
    return x * 2.


@pytest.mark.parametrize("function", [
    _print, tf2.function(_print), lambda x: ipu.loops.repeat(2, _print, [x]),
    lambda x: tf.cond(x[0] > 0., lambda: _print(x), lambda: x),
    lambda x: tf.Print(x, [x]) * 2.], ids=["alone", "function", "loop", "branch", "old"])
def test_prints_are_refused(function):
    """Also those that no result waits for."""
    x = tf.placeholder(tf.float32, [2])
    compiled = compile_op(function, inputs=[x])
    with tf.Session() as session, pytest.raises(
            tf.errors.InvalidArgumentError, match="[pP]rint.* on the host, which a file cannot"):
        session.run(compiled, {x: [0, 1]})


def _branch(outfeed, x):
    def enqueue():
        outfeed.enqueue(x * 2.)
        return tf.constant(1)

    tf.cond(tf.reduce_sum(x) > 0., enqueue, lambda: tf.constant(2))


@pytest.mark.parametrize("kind", ["loop", "body", "branch"])
def test_functions_that_only_enqueue(kind):
    """What a tf.function does beside its results belongs to the program that calls it."""
    infeed, outfeed = queues()

    def enqueue(x):
        outfeed.enqueue(x * 2.)

    def loop(body):
        ipu.loops.repeat(2, body, [], infeed)

    function = tf2.function({
        "loop": lambda: loop(enqueue), "body": lambda: loop(tf2.function(enqueue)),
        "branch": lambda: loop(lambda x: _branch(outfeed, x))}[kind], autograph=False)
    with tf.Session() as session:
        path = session.run(compile_op(function)).decode()
        context = runtime.embedded_runtime_start(path, [], f"enqueues_{kind}")
        outputs = runtime.embedded_runtime_call([tf.constant([1., 2.])], context)
        for _ in range(3):
            np.testing.assert_array_equal(session.run(outputs)[0], [2, 4])
        session.run(runtime.embedded_runtime_stop(context))
        x = tf.placeholder(tf.float32, [2])
        with pytest.raises(tf.errors.InvalidArgumentError, match="on the host, which a file"):
            session.run(compile_op(_on_the_host, inputs=[x]), {x: [0, 1]})


def _on_the_host(x):
    with ipu.scopes.outside_compilation_scope():
        return x + 1.


def test_refusals(tmp_path):
    path = str(tmp_path / "model")
    compiled = compile_op(model, output_path=path)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(compiled)
    w = tf.constant([1., 1.])
    for message, inputs in [("expects 1 inputs, but 0 were", []),
                            ("Expected the inputs to be a list", 3),
                            ("Failed to find input tensor with name 'XLA_Args/w'", {}),
                            ("Mismatched input shape at position 0 .'XLA_Args/w'", [tf.zeros([3])]),
                            ("Mismatched input dtype at position 0", [tf.zeros([2], tf.int32)])]:
        with pytest.raises(Exception, match=message):
            runtime.embedded_runtime_start(path, inputs, "refused")
    context = runtime.embedded_runtime_start(path, {"XLA_Args/w": w}, "refused")
    with pytest.raises(Exception, match="call expects 1 inputs, but 2 were"):
        runtime.embedded_runtime_call([w, w], context)
    for function, arguments, message in [
            (runtime.embedded_runtime_call, ([w], 3), "context must be what .* but it is 3"),
            (runtime.embedded_runtime_stop, (3,), "context must be what .* but it is 3"),
            (runtime.embedded_runtime_call, (3, context), "inputs must be a list of tensors"),
            (runtime.embedded_runtime_start, (3, [], "x"), "executable_file must be a path"),
            (runtime.embedded_runtime_start, (path, [w], 3), "name must be a str, but it is 3"),
            (compile_op, (3,), "func must be a function, not 3"),
            (compile_op, (model, 3), "inputs must be a list of tensors, but it is 3"),
            (compile_op, (model, [], 3), "output_path must be a path"),
            (compile_op, (model, [], path, "x"), "freeze_variables must be a bool")]:
        with pytest.raises(TypeError, match=message):
            function(*arguments)
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    with pytest.raises(ValueError, match="was not written by"):
        runtime.embedded_runtime_start(str(other), [], "refused")
    with pytest.raises(FileNotFoundError):
        runtime.embedded_runtime_start(str(tmp_path / "absent"), [], "refused")


def test_an_eager_variable_in_a_pipeline(script, tmp_path):
    """A function with a pipeline, one of whose stages reads a variable that is there already."""
    done = script("""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu

    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensors(np.zeros(2, np.float32)).repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    w = tf.Variable([2., 3.])

    @tf.function
    def model():
        ipu.pipelining_ops.pipeline(
            [lambda a, x: a * x * w, lambda x: x + 1.], gradient_accumulation_count=4,
            inputs=[10.], infeed_queue=infeed, outfeed_queue=outfeed, device_mapping=[0, 0])

    path = ipu.application_compile_op.experimental_application_compile_op(
        model, freeze_variables=True)
    context = ipu.embedded_runtime.embedded_runtime_start(path.numpy().decode(), [], "eager")
    print(ipu.embedded_runtime.embedded_runtime_call([tf.constant([1., 2.])], context)[0].numpy())
    ipu.embedded_runtime.embedded_runtime_stop(context)
    """, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.stdout.strip() == "[21. 61.]", done.stderr
