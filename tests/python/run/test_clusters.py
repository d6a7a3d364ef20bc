"""Ops that are on the device without `compile` are put together into programs.

What a run launches is read off the graphs that it ran (RunMetadata.partition_graphs); what it would
have given with one program an op, off a session that does not use the plugin's optimiser.
"""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python import ipu

# What TensorFlow's own kernels do on every device, and moving values between devices.
_FREE = {"VarHandleOp", "ReadVariableOp", "AssignVariableOp", "Const", "Identity", "NoOp", "Switch",
         "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "_Send", "_Recv", "_HostSend",
         "_HostRecv", "_Retval", "_Arg", "StopGradient", "Squeeze", "ControlTrigger",
         "AssignAddVariableOp", "AssignSubVariableOp", "VarIsInitializedOp"}


@pytest.fixture
def x():
    with tf.device("cpu"):
        return tf.placeholder(tf.float32, [None], name="x")


@pytest.fixture
def run():
    """Runs something with clustering and without, in sessions of their own; what comes is checked
    to be the same. Returns (values, launched ops by type with clustering)."""
    def one(fetches, feed, clustered, times):
        config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        if not clustered:
            config.graph_options.rewrite_options.use_plugin_optimizers = (
                rewriter_config_pb2.RewriterConfig.OFF)
        metadata = tf.RunMetadata()
        ipu.utils.reset_ipu_seed(5)
        with tf.Session(config=config) as s:
            s.run(tf.global_variables_initializer())
            for _ in range(times):
                values = s.run(fetches, feed, run_metadata=metadata,
                               options=tf.RunOptions(output_partition_graphs=True))
        return values, launched(metadata.partition_graphs)

    def both(fetches, feed=None, times=1):
        values, programs = one(fetches, feed, True, times)
        expected, single = one(fetches, feed, False, times)
        assert "IpuLaunch" not in single
        tf.nest.map_structure(
            lambda a, b: a is None or np.testing.assert_array_equal(a, b), values, expected)
        return values, programs
    return both


def launched(graphs):
    """{op: how many nodes of it are programs on an IPU}. TensorFlow's kernels count a loop's
    iterations, as an int32."""
    return collections.Counter(
        node.op for graph in graphs for node in graph.node
        if "IPU" in node.device and node.op not in _FREE
        and not (node.op == "AddV2" and node.attr["T"].type == tf.int32.as_datatype_enum))


def scope():
    return ipu.scopes.ipu_scope("/device:IPU:0")


def test_one_program(x, run):
    with scope():
        y = tf.reduce_sum(tf.nn.relu(x) * 2. + 1.)
    value, programs = run(y, {x: [1, -2, 3]})
    assert value == 11 and programs == {"IpuLaunch": 1}


def test_other_shapes_in_the_same_session(x, session):
    with scope():
        y = tf.reshape(tf.nn.relu(x) * 2., [-1, 2]) + tf.cast(tf.shape(x)[0], tf.float32)
    with session() as s:
        for count in (2, 6, 4, 6):
            fed = np.arange(count, dtype=np.float32) - 1
            np.testing.assert_array_equal(
                s.run(y, {x: fed}), (np.maximum(fed, 0) * 2).reshape([-1, 2]) + count)


def test_inner_nodes_can_be_fetched(x, run):
    with scope():
        a = tf.nn.relu(x, name="a")
        b = tf.multiply(a, 3., name="b")
        c = tf.subtract(b, a, name="c")
    values, programs = run({"a": a, "b": "b:0", "c": c, "op": c.op}, {x: [-1, 2]})
    np.testing.assert_array_equal(values["a"], [0, 2])
    np.testing.assert_array_equal(values["c"], [0, 4])
    assert programs == {"IpuLaunch": 1}


def test_inner_nodes_can_be_fed(x, session):
    with scope():
        a = tf.nn.relu(x)
        b = a * 3.
        c = b + a
    with session() as s:
        np.testing.assert_array_equal(s.run(c, {x: [1, 2]}), [4, 8])
        np.testing.assert_array_equal(s.run(c, {x: [1, 2], b: [0, 1]}), [1, 3])


def test_op_of_the_cpu_between(x, run):
    with scope():
        a = tf.nn.relu(x) * 2.
    with tf.device("cpu"):
        between = tf.cumsum(a)
    with scope():
        b = tf.exp(between * .5) + a
    _, programs = run(b, {x: [1, 2, 3]})
    assert programs == {"IpuLaunch": 2}


def test_what_is_alone_stays_alone(x, run):
    with scope():
        a = tf.nn.relu(x)
    with tf.device("cpu"):
        between = tf.cumsum(a)
    with scope():
        b = tf.exp(between)
    _, programs = run(b, {x: [1, 2, 3]})
    assert programs == {"Relu": 1, "Exp": 1}


def test_control_dependencies(x, run):
    """Waits of inner nodes become waits of the program, both ways."""
    with scope():
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        with tf.control_dependencies([v.assign(tf.tanh(x) * 2.)]):
            a = v.read_value() + 1.
            b = a * 2.
        with tf.control_dependencies([b]):
            done = v.assign([7., 7.])
        with tf.control_dependencies([done]):
            c = v.read_value() * 2. + b
    (b_value, c_value), programs = run([b, c], {x: [0, 0]})
    np.testing.assert_array_equal(b_value, [2, 2])
    np.testing.assert_array_equal(c_value, [16, 16])
    assert programs == {"IpuLaunch": 1}


def test_gradients_and_updates(x, run):
    with scope():
        v = tf.get_variable("v", [3, 2], initializer=tf.ones_initializer())
        logits = tf.matmul(tf.reshape(x, [-1, 3]), v)
        loss = tf.reduce_mean(tf.square(tf.tanh(logits) - 0.5) + logits)
        gradient, = tf.gradients(loss, v)
        update = tf.assign_sub(v, 0.1 * gradient)
        with tf.control_dependencies([update]):
            after = tf.identity(v.read_value())
    (_, _, value), programs = run([loss, gradient, after], {x: np.arange(6) / 6}, times=3)
    assert programs == {"IpuLaunch": 1}
    assert np.all(value < 1)


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_cond(x, run, kind):
    old = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if kind == "v2" else tf.disable_control_flow_v2)()
    try:
        with scope():
            a = tf.reduce_sum(x * 2. + 1.)
            b = tf.cond(a > 0, lambda: tf.exp(a * 0.25) + 1., lambda: a * 3. - 1.)
            c = tf.sqrt(tf.abs(b * 2. + a))
    finally:
        (tf.enable_control_flow_v2 if old else tf.disable_control_flow_v2)()
    for fed in ([1, 2], [-3, -4]):
        _, programs = run([b, c], {x: fed})
        assert programs == {"IpuLaunch": 4}  # before, two branches, after


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_while_loop(x, run, kind):
    old = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if kind == "v2" else tf.disable_control_flow_v2)()
    try:
        with scope():
            start = tf.reduce_sum(x) * 0.
            _, total = tf.while_loop(
                lambda i, _: tf.reduce_sum(i * 2. - 8.) < 0.,
                lambda i, t: (i + 1., tf.tanh(t * i) + tf.reduce_sum(x)), [start, start])
            y = total * 2. + start
    finally:
        (tf.enable_control_flow_v2 if old else tf.disable_control_flow_v2)()
    value, programs = run(y, {x: [1, 2]})
    assert value > 6 and programs["IpuLaunch"] == 4  # before, condition, body, after
    assert set(programs) == {"IpuLaunch"}


def test_branches_that_are_not_taken_do_not_run(x, session):
    with scope():
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        a = tf.reduce_sum(x * 2.)

        def count():
            with tf.control_dependencies([v.assign(v * 1. + a)]):
                return tf.exp(a) * 2.

        b = tf.cond(a > 0, count, lambda: a * 3. + 1.)
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert s.run(b, {x: [-1]}) == -5 and s.run(v) == 0
        s.run(b, {x: [1]})
        assert s.run(v) == 2


def test_random_ops(x, session):
    """They are part of a program, and draw different numbers."""
    with scope():
        y = tf.random_uniform([64], seed=3) * 2. + x
        z = tf.random_uniform([64]) + y * 0.
    metadata = tf.RunMetadata()
    with session() as s:
        y_value, z_value = s.run([y, z], {x: [0] * 64}, tf.RunOptions(
            output_partition_graphs=True), metadata)
    assert launched(metadata.partition_graphs) == {"IpuLaunch": 1}
    assert not np.any(y_value == z_value * 2) and 0.7 < y_value.mean() < 1.3


def test_an_update_of_several_variables_is_one_program(run):
    """Though nothing but the NoOp that waits for all of them is common to them: what one of them
    adds is a constant, which is known before it runs."""
    with scope():
        variables = [tf.get_variable(f"v{i}", initializer=tf.ones([3]), use_resource=True)
                     for i in range(3)]
        step = tf.group(*[v.assign_sub(v * 0.5 + i) for i, v in enumerate(variables)])
    _, programs = run(step)
    assert programs["IpuLaunch"] == 1


def test_the_second_result_of_an_op_may_be_fetched_or_not(x, run):
    with scope():
        image = tf.reshape(x, [1, 1, 1, 3]) * 2. + 1.
        y, mean, _ = tf.nn.fused_batch_norm(image, [1., 1, 1], [0., 0, 0], epsilon=0.)
    _, programs = run(y, {x: [1, 2, 3]})
    assert programs["IpuLaunch"] == 1 and programs["FusedBatchNormV3"] == 0
    (_, found), programs = run([y, mean], {x: [1, 2, 3]})
    assert found.tolist() == [3, 5, 7] and programs["IpuLaunch"] == 1


@pytest.mark.parametrize("channels", [2, 4])
def test_a_normalisation_and_its_relu(channels, session):
    """TensorFlow's optimisers put the two together as for a GPU, whose kernel wants channels by
    fours."""
    with scope():
        image = tf.placeholder(tf.float32, [1, 2, 2, channels])
        ones = tf.ones([channels])
        y = tf.nn.relu(tf.nn.fused_batch_norm(image * 2., ones, 0 * ones, 3 * ones, ones,
                                              epsilon=0., is_training=False)[0])
    values = np.arange(4. * channels).reshape(1, 2, 2, channels)
    with session() as s:
        assert np.allclose(s.run(y, {image: values}), np.maximum(2 * values - 3, 0))


def test_shapes_that_depend_on_values_stay_outside(x, run):
    """Each slice is a program of its own, as without clustering; the rest is not compiled anew."""
    with tf.device("cpu"):
        start = tf.placeholder(tf.int32, [])
    with scope():
        y = tf.exp(x * 2. + 1.)
        z = tf.sqrt(y[start:start + 2] * 3.)
    for at in (0, 1):
        _, programs = run(z, {x: [1, 2, 3], start: at})
        assert programs["StridedSlice"] == 1 and programs["IpuLaunch"] == 2


def test_ops_that_an_ipu_has_not(x, session):
    """A run that needs one fails and says where it is; others do not, and are clustered as always,
    also when the op is added later."""
    with scope():
        y = tf.nn.relu(x) * 2.
        bad = [tf.fft(tf.complex(x, x)) for _ in range(2)]
    words = (r"(?s)Cannot assign a device for operation FFT.*test_clusters.py:.*"
             r"no supported kernel for IPU devices")

    def run(fetches, s):
        metadata = tf.RunMetadata()
        values = s.run(fetches, {x: [1]}, tf.RunOptions(output_partition_graphs=True), metadata)
        return values, launched(metadata.partition_graphs)

    with session() as s:
        for _ in range(2):
            got, programs = run(y, s)
            assert got == [2] and programs["IpuLaunch"] == 1
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                s.run(bad[0], {x: [1]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            s.make_callable(bad[1], [x])
        np.testing.assert_array_equal(s.run(bad[0], {bad[0]: [3]}), [3])  # it does not run
        with scope():
            z = tf.nn.tanh(x) * 0. + 5.
            other = tf.as_string(x * 3.)
        got, programs = run(z, s)
        assert got == [5] and programs["IpuLaunch"] == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="operation AsString.*defined at"):
            s.run(other, {x: [1]})
        assert s.run(y, {x: [1]}) == [2]
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as s:
        np.testing.assert_array_equal(s.run(bad[0], {x: [1]}), [1 + 1j])


def test_error_names_the_op_and_its_line(x, session):
    with tf.device("cpu"):
        other = tf.placeholder(tf.float32, [None])
    with scope():
        y = tf.add(tf.nn.relu(x), other * 2., name="sum_of_both") * 2.
    with session() as s, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        s.run(y, {x: [1, 2], other: [1, 2, 3]})
    assert "sum_of_both" in str(caught.value) and "test_clusters.py:" in str(caught.value)


def test_two_devices(x, script):
    done = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = [1, 1]
        config.configure_ipu_system()
        with tf.device("cpu"):
            x = tf.placeholder(tf.float32, [None])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            a = tf.nn.relu(x) * 2.
        with ipu.scopes.ipu_scope("/device:IPU:1"):
            b = tf.reduce_sum(a + 1.)
        metadata = tf.RunMetadata()
        with tf.Session() as s:
            print("value", s.run(b, {x: [1, 2]}, run_metadata=metadata,
                                 options=tf.RunOptions(output_partition_graphs=True)))
        print(sorted(node.device[-5:] for graph in metadata.partition_graphs
                     for node in graph.node if node.op == "IpuLaunch"))
        """)
    assert "value 8.0" in done.stdout and "['IPU:0', 'IPU:1']" in done.stdout, done.stderr


def test_tf_function(script):
    done = script("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.device("/device:IPU:0"):
            v = tf.Variable([1., 1.])

        @tf.function
        def step(x):
            with tf.device("/device:IPU:0"):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.tanh(x * v) * 2.)
                v.assign_sub(tape.gradient(loss, v) * 0.5)
                return tf.while_loop(lambda i, _: i < 2., lambda i, one: (i + 1., one * 2. + 1.),
                                     [tf.constant(0.), loss])[1]

        for count in range(2):
            print("loss", float(step(tf.constant([1., 2.]))))

        @tf.function
        def wrong(x, y):
            with tf.device("/device:IPU:0"):
                return tf.add(tf.nn.relu(x), y * 2., name="sum_of_both") * 2.

        any_shape = tf.TensorSpec([None], tf.float32)
        try:
            wrong.get_concrete_function(any_shape, any_shape)(tf.zeros([2]), tf.zeros([3]))
        except tf.errors.InvalidArgumentError as error:
            print("error", str(error).replace("\\n", " "))
        """, POPLAR_LOG_LEVEL="INFO")
    v, x, losses = np.ones(2), np.array([1., 2.]), []
    for _ in range(2):
        losses.append(np.sum(np.tanh(x * v) * 2) * 4 + 3)
        v = v - 0.5 * 2 * x / np.cosh(x * v) ** 2
    lines = done.stdout.splitlines()
    got = [float(line.split()[1]) for line in lines if line.startswith("loss")]
    np.testing.assert_allclose(got, losses, rtol=1e-5, err_msg=done.stderr)
    assert "lowered a graph" in done.stderr
    assert "sum_of_both" in next(line for line in lines if line.startswith("error"))


def test_ops_added_between_runs(x, session):
    with scope():
        a = tf.nn.relu(x) * 2.
    with session() as s:
        np.testing.assert_array_equal(s.run(a, {x: [1]}), [2])
        with scope():
            b = tf.exp(a) * 0. + a
        np.testing.assert_array_equal(s.run(b, {x: [1]}), [2])


def test_partial_runs(x, session):
    with scope():
        y = tf.nn.relu(x) * 2. + 1.
    with session() as s:
        handle = s.partial_run_setup([y], [x])
        np.testing.assert_array_equal(s.partial_run(handle, y, {x: [1]}), [3])
