"""Compiled and uncompiled parts, variables and Keras layers in one TensorFlow 1 graph."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

IPU = "/device:IPU:0"


def start(session):
    ipu.utils.move_variable_initialization_to_cpu()
    session.run(tf.global_variables_initializer())


def test_parts_between_parts(on_ipu, session):
    """CPU, a program, the CPU again, an operation of the IPU by itself, and a second program."""
    x = tf.placeholder(tf.float32, [2])
    before = x + 1.0
    first, = on_ipu(lambda a: a * 2.0, [before])
    between = tf.py_func(lambda a: a + np.float32(10), [first], tf.float32)
    between.set_shape([2])
    with ipu.scopes.ipu_scope(IPU):
        single = between - 1.0
    second, = on_ipu(lambda a, b: a * b, [single, first])
    with session() as run:
        for values in ([1, 2], [3, 4]):
            values = np.float32(values)
            doubled = 2 * (values + 1)
            np.testing.assert_array_equal(run.run(second + 0.5, {x: values}),
                                          (doubled + 9) * doubled + .5)
            got = run.run([before, first, second], {x: values})
            np.testing.assert_array_equal(got[2], (doubled + 9) * doubled)


def test_variables_inside_and_outside(on_ipu, session):
    """A program's updates are seen outside, and what is assigned outside is seen in the program."""
    def program():
        with tf.variable_scope("v", reuse=tf.AUTO_REUSE):
            v = tf.get_variable("v", initializer=[1.0, 2.0])
        return v.assign_add([1.0, 1.0])

    program = on_ipu(program)
    with tf.variable_scope("v", reuse=True):
        v = tf.get_variable("v", [2], use_resource=True)
    value = tf.placeholder(tf.float32, [2])
    with tf.device("cpu"):
        outside = tf.assign(v, value)
        add, read = tf.assign_add(v, [0.5, 0.5]), v.read_value()
    with session() as run:
        start(run)
        assert "IPU" not in v.initializer.inputs[1].op.device
        run.run(program)
        np.testing.assert_array_equal(run.run(read), [2, 3])
        run.run(outside, {value: [10, 20]})
        np.testing.assert_array_equal(run.run(program)[0], [11, 21])
        run.run(add)
        np.testing.assert_array_equal(run.run(v), [11.5, 21.5])
        np.testing.assert_array_equal(run.run(program)[0], [12.5, 22.5])


def test_training_and_inference_share_weights(on_ipu, session):
    """Two programs over the same variables, run in turn."""
    def network(x):
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            return tf.matmul(x, tf.get_variable("w", initializer=np.ones([2, 1], np.float32)))

    def train(x):
        loss = tf.reduce_sum(tf.square(network(x) - 1.0))
        return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    x = tf.placeholder(tf.float32, [1, 2])
    training, inference = on_ipu(train, [x]), on_ipu(network, [x])
    data, w = np.float32([[1, 2]]), np.ones([2, 1])
    with session() as run:
        start(run)
        for _ in range(3):
            error = data @ w - 1
            np.testing.assert_allclose(run.run(training, {x: data})[0], (error ** 2).sum(),
                                       rtol=1e-5, atol=1e-6)
            w = w - .2 * data.T @ error
            np.testing.assert_allclose(run.run(inference, {x: data})[0], data @ w, atol=1e-5)


def _keras_step(x, y):
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(4, activation="relu", kernel_initializer="ones", name="a"),
        tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant(.1),
                              name="b")])
    loss = tf.reduce_mean(tf.square(model(x) - y))
    return loss, tf.train.AdamOptimizer(.05).minimize(loss)


def _layers_step(x, y):
    x = tf.layers.dense(x, 4, tf.nn.relu, kernel_initializer=tf.ones_initializer())
    x = tf.layers.batch_normalization(x, training=True)
    x = tf.layers.dense(x, 1, kernel_initializer=tf.constant_initializer(.1))
    loss = tf.reduce_mean(tf.square(x - y))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return loss, tf.train.MomentumOptimizer(.05, .9).minimize(loss)


def _losses(step, compiled, session):
    random = np.random.RandomState(2)
    xs, ys = random.normal(size=[5, 8, 3]), random.normal(size=[5, 8, 1])
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.float32, [8, 1])
        if compiled:
            with ipu.scopes.ipu_scope(IPU):
                step = ipu.ipu_compiler.compile(step, [x, y])
        else:
            step = step(x, y)
        with session() as run:
            start(run)
            return [run.run(step, {x: a, y: b})[0] for a, b in zip(xs, ys)]


def test_keras_layers_and_a_loop_of_ones_own(session):
    np.testing.assert_allclose(_losses(_keras_step, True, session),
                               _losses(_keras_step, False, session), rtol=1e-4)


def test_tf_layers(session):
    np.testing.assert_allclose(_losses(_layers_step, True, session),
                               _losses(_layers_step, False, session), rtol=1e-4)


def test_shards_and_automatic_shards_train_as_one_ipu(script):
    """Four forms of one network, step by step against plain TensorFlow."""
    result = script("""
        import numpy as np
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        from tensorflow.python.ipu.optimizers import sharded_optimizer
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        random = np.random.RandomState(3)
        xs, ys = random.normal(size=[4, 8, 6]), random.normal(size=[4, 8, 1])

        def network(x, y, shard, wrap, auto):
            def dense(x, units, name):
                return tf.layers.dense(x, units, tf.tanh, name=name,
                                       kernel_initializer=tf.constant_initializer(.1))
            with shard(0):
                x = dense(x, 16, "a")
            with shard(1):
                loss = tf.reduce_mean(tf.square(dense(x, 1, "b") - y))
            if auto:
                ipu.autoshard.automatic_sharding(2, x, loss)
            return loss, wrap(tf.train.MomentumOptimizer(.1, .9)).minimize(loss)

        import contextlib
        none = lambda index: contextlib.nullcontext()
        same = lambda optimizer: optimizer
        losses = []
        for shard, wrap, auto, compiled in (
                (none, same, False, False), (ipu.scopes.ipu_shard, same, False, True),
                (ipu.scopes.ipu_shard, sharded_optimizer.ShardedOptimizer, False, True),
                (none, sharded_optimizer.ShardedOptimizer, True, True)):
            with tf.Graph().as_default(), tf.Session() as session:
                x, y = tf.placeholder(tf.float32, [8, 6]), tf.placeholder(tf.float32, [8, 1])
                build = lambda x, y: network(x, y, shard, wrap, auto)
                if compiled:
                    with ipu.scopes.ipu_scope("/device:IPU:0"):
                        with ipu.autoshard.ipu_autoshard() if auto else contextlib.nullcontext():
                            step = ipu.ipu_compiler.compile(build, [x, y])
                else:
                    step = build(x, y)
                ipu.utils.move_variable_initialization_to_cpu()
                session.run(tf.global_variables_initializer())
                losses.append([session.run(step, {x: a, y: b})[0] for a, b in zip(xs, ys)])
        for one in losses[1:]:
            np.testing.assert_allclose(one, losses[0], rtol=1e-5)
        print("equal", len(set(losses[0])))
    """)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == "equal 4\n"


def test_a_warning_when_programs_alternate(script):
    """It comes once, names both programs, and not when a program runs several times in a row."""
    result = script("""
        import sys
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        x = tf.placeholder(tf.float32, [2])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            a = ipu.ipu_compiler.compile(lambda x: x * 2.0, [x])
            b = ipu.ipu_compiler.compile(lambda x: x + 2.0, [x])
        with tf.Session() as session:
            for _ in range(30):
                for _ in range(3):
                    session.run(a, {x: [1, 2]})
                session.run(b, {x: [1, 2]})
            print("in turn", file=sys.stderr, flush=True)
            for _ in range(60):
                session.run(a, {x: [1, 2]})
                session.run(b, {x: [1, 2]})
    """)
    assert result.returncode == 0, result.stderr[-3000:]
    before, after = result.stderr.split("in turn\n")
    assert "changes between programs" not in before
    assert after.count("/device:IPU:0 changes between programs at every step") == 1
