"""Data-parallel training against the same training in plain TensorFlow on the CPU, step by step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

BATCH, INPUTS, HIDDEN, CLASSES = 4, 6, 8, 3
STEPS, RUNS = 3, 3


def optimizers():
    return {"sgd": lambda: tf.train.GradientDescentOptimizer(0.3),
            "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
            "adam": lambda: tf.train.AdamOptimizer(0.05)}


def data(count):
    """Batches: features and labels."""
    random = np.random.RandomState(7)
    return (random.normal(size=[count, BATCH, INPUTS]).astype(np.float32),
            random.randint(0, CLASSES, size=[count, BATCH]).astype(np.int32))


def initial(name, shape):
    values = np.random.RandomState(len(name)).normal(size=shape).astype(np.float32) * 0.5
    return tf.get_variable(name, initializer=values, use_resource=True)


def loss_of(x, y):
    hidden = tf.nn.relu(tf.matmul(x, initial("w", [INPUTS, HIDDEN])) + initial("bias", [HIDDEN]))
    logits = tf.matmul(hidden, initial("output", [HIDDEN, CLASSES]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def on_cpu(optimizer, features, labels, steps, replicas):
    """Losses of each replica's batch and the weights after each step, in one process."""
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        x = tf.placeholder(tf.float32, [replicas, BATCH, INPUTS])
        y = tf.placeholder(tf.int32, [replicas, BATCH])
        with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            losses = tf.stack([loss_of(x[i], y[i]) for i in range(replicas)])
        train = optimizer.minimize(tf.reduce_mean(losses))
        weights = tf.trainable_variables()
        history = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(steps):
                some = slice(step * replicas, (step + 1) * replicas)
                got, _ = session.run([losses, train], {x: features[some], y: labels[some]})
                history.append((got, session.run(weights)))
        return history


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", sorted(optimizers()))
def test_fed_training(devices, session, replicas, name):
    devices(replicas)
    features, labels = data(STEPS * RUNS * replicas)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((features, labels)))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(optimizers()[name]())

    def body(x, y):
        with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            loss = loss_of(x, y)
        return [optimizer.minimize(loss), outfeed.enqueue(loss)]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, body, [], infeed))
    dequeued = outfeed.dequeue()
    assert dequeued.shape.as_list() == [None, replicas]
    weights = tf.trainable_variables()
    expected = on_cpu(optimizers()[name](), features, labels, STEPS * RUNS, replicas)
    with session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        for number in range(RUNS):
            s.run(run)
            losses = s.run(dequeued)
            assert losses.shape == (STEPS, replicas)
            for step in range(STEPS):
                np.testing.assert_allclose(losses[step], expected[number * STEPS + step][0],
                                           rtol=2e-5, atol=2e-6)
            for got, want in zip(s.run(weights), expected[(number + 1) * STEPS - 1][1]):
                np.testing.assert_allclose(got, want, rtol=5e-5, atol=1e-5)


@pytest.mark.parametrize("replicas", [2, 4])
def test_training_without_feeds(devices, session, replicas):
    """The batches of all replicas are an input; each takes its own."""
    devices(replicas)
    features, labels = data(STEPS * replicas)
    optimizer = ipu.optimizers.cross_replica_optimizer.CrossReplicaOptimizer(
        tf.train.MomentumOptimizer(0.1, 0.9))
    x = tf.placeholder(tf.float32, [replicas, BATCH, INPUTS])
    y = tf.placeholder(tf.int32, [replicas, BATCH])

    def step(x, y):
        own = tf.reshape(ipu.replication_ops.replication_index(), [1])
        loss = loss_of(tf.gather(x, own)[0], tf.gather(y, own)[0])
        train = optimizer.minimize(loss)
        return ipu.ops.all_to_all_op.all_gather(loss, replicas), train

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        losses, = ipu.ipu_compiler.compile(step, [x, y])
    expected = on_cpu(tf.train.MomentumOptimizer(0.1, 0.9), features, labels, STEPS, replicas)
    weights = tf.trainable_variables()
    with session() as s:
        s.run(tf.global_variables_initializer())
        for number in range(STEPS):
            some = slice(number * replicas, (number + 1) * replicas)
            got = s.run(losses, {x: features[some], y: labels[some]})
            np.testing.assert_allclose(got, expected[number][0], rtol=2e-5, atol=2e-6)
            for mine, want in zip(s.run(weights), expected[number][1]):
                np.testing.assert_allclose(mine, want, rtol=5e-5, atol=1e-5)


def test_convolutions_train_the_same_for_every_number_of_threads(script):
    """Bit for bit, in half precision too."""
    program = """
        import hashlib
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        x = tf.placeholder(tf.float16, [2, 2, 8, 8, 4])
        def net(x):
            own = tf.reshape(ipu.replication_ops.replication_index(), [1])
            value = tf.gather(x, own)[0]
            for i in range(3):
                value = tf.layers.conv2d(value, 16, 3, padding="same", activation=tf.nn.relu,
                                         kernel_initializer=tf.initializers.glorot_uniform(seed=i))
            loss = tf.reduce_mean(value)
            optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
                tf.train.GradientDescentOptimizer(0.5))
            return loss, optimizer.minimize(loss)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            loss, = ipu.ipu_compiler.compile(net, [x])
        tf.set_random_seed(1)
        values = np.random.RandomState(1).normal(size=x.shape.as_list())
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(loss, {x: values})
            weights = session.run(tf.trainable_variables())
        print("DIGEST", hashlib.sha256(b"".join(one.tobytes() for one in weights)).hexdigest())
        """
    digests = set()
    for threads in ("1", "2", "8"):
        done = script(program, OMP_NUM_THREADS=threads)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout.split("DIGEST")[1].strip())
    assert len(digests) == 1


@pytest.mark.parametrize("generation", ["", "V2"])
def test_accumulated_gradients(devices, session, generation):
    """Two replicas, each of which adds up three batches: the sums' mean over the replicas."""
    devices(2)
    replicas, mini_batches, updates = 2, 3, 2
    features, labels = data(replicas * mini_batches * updates)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((features, labels)))
    optimizer = getattr(ipu.gradient_accumulation_optimizer,
                        "CrossReplicaGradientAccumulationOptimizer" + generation)(
                            tf.train.GradientDescentOptimizer(0.1), mini_batches)

    def body(x, y):
        with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            return [optimizer.minimize(loss_of(x, y))]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(mini_batches * updates, body, [], infeed))
    weights = tf.trainable_variables()
    with session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        s.run(run)
        got = s.run(weights)
    # The mean over the replicas of sums of mini_batches gradients.
    expected = on_cpu(tf.train.GradientDescentOptimizer(0.1 * mini_batches), features, labels,
                      updates, replicas * mini_batches)[-1][1]
    for mine, want in zip(got, expected):
        np.testing.assert_allclose(mine, want, rtol=5e-5, atol=1e-5)


def test_pipeline(devices, session):
    """A pipeline of two stages on two replicas of two IPUs each."""
    devices(4)
    replicas, mini_batches = 2, 4
    features, labels = data(replicas * mini_batches)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((features, labels)))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def first(x, y):
        with tf.variable_scope("m", use_resource=True):
            return tf.nn.relu(tf.matmul(x, initial("w", [INPUTS, HIDDEN]))
                              + initial("bias", [HIDDEN])), y

    def second(hidden, y):
        with tf.variable_scope("m", use_resource=True):
            logits = tf.matmul(hidden, initial("output", [HIDDEN, CLASSES]))
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y, logits=logits))

    def optimizer_function(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            ipu.cross_replica_optimizer.CrossReplicaOptimizer(
                tf.train.GradientDescentOptimizer(0.1)), loss)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda: ipu.pipelining_ops.pipeline(
            [first, second], gradient_accumulation_count=mini_batches, infeed_queue=infeed,
            outfeed_queue=outfeed, optimizer_function=optimizer_function))
    dequeued, weights = outfeed.dequeue(), tf.trainable_variables()
    with session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        s.run(run)
        losses, got = s.run([dequeued, weights])
    expected_losses, expected = on_cpu(
        tf.train.GradientDescentOptimizer(0.1 * mini_batches), features, labels, 1,
        replicas * mini_batches)[0]
    losses = losses[0] if isinstance(losses, (list, tuple)) else losses
    assert losses.shape == (mini_batches, replicas)
    np.testing.assert_allclose(losses.reshape([-1]), expected_losses, rtol=2e-5, atol=2e-6)
    for mine, want in zip(got, expected):
        np.testing.assert_allclose(mine, want, rtol=5e-5, atol=1e-5)
