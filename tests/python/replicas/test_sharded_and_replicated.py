"""Shards and replicas at once, and collectives between the shards of a replica."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import within_replica_ops

SHARDS_DO_NOT_DIVIDE = (
    "Trying to compile a graph for an IPU device with {} IPUs and {} shards. The number of shards "
    "needs to divide the number of IPUs.")


def sharded(count):
    """x through `count` shards, and the number of replicas."""
    def net(x):
        for i in range(count):
            with ipu.scopes.ipu_shard(i):
                x = x * 2. + 1.
        return x, ipu.replication_ops.replication_factor()
    return net


@pytest.mark.parametrize("ipus,shards,replicas", [(2, 1, 2), (4, 2, 2), (8, 2, 4), (4, 3, 1),
                                                 (8, 3, 2), (2, 2, 1), (16, 4, 4)])
def test_factors(devices, session, on_ipu, ipus, shards, replicas):
    devices(ipus)
    x = tf.placeholder(tf.float32, [])
    results = on_ipu(sharded(shards), [x])
    with session() as s:
        value, factor = s.run(results, {x: 0.})
    assert factor == replicas and value == 2 ** shards - 1


@pytest.mark.parametrize("ipus,shards,rounded", [(1, 2, 2), (2, 3, 4), (2, 4, 4)])
def test_shards_that_do_not_divide(devices, session, on_ipu, ipus, shards, rounded):
    devices(ipus)
    x = tf.placeholder(tf.float32, [])
    results = on_ipu(sharded(shards), [x])
    with session() as s, pytest.raises(tf.errors.InternalError) as caught:
        s.run(results, {x: 0.})
    assert SHARDS_DO_NOT_DIVIDE.format(ipus, rounded) in str(caught.value)


def test_training(devices, session):
    """Two shards on two replicas, against plain TensorFlow."""
    devices(4)
    steps, replicas = 4, 2
    random = np.random.RandomState(3)
    features = random.normal(size=[steps * replicas, 4, 5]).astype(np.float32)
    start = [random.normal(size=[5, 6]).astype(np.float32),
             random.normal(size=[6, 1]).astype(np.float32)]

    def loss_of(x, scope):
        with scope(0):
            w = tf.get_variable("w0", initializer=start[0], use_resource=True)
            x = tf.tanh(tf.matmul(x, w))
        with scope(1):
            w = tf.get_variable("w1", initializer=start[1], use_resource=True)
            return tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.))

    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(features))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x):
        optimizer = ipu.sharded_optimizer.ShardedOptimizer(
            ipu.cross_replica_optimizer.CrossReplicaOptimizer(
                tf.train.GradientDescentOptimizer(0.2)))
        loss = loss_of(x, ipu.scopes.ipu_shard)
        return optimizer.minimize(loss), outfeed.enqueue(loss)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(steps, body, [], infeed))
    dequeued, weights = outfeed.dequeue(), tf.trainable_variables()
    assert dequeued.shape.as_list() == [None, replicas]
    with session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        s.run(run)
        losses, got = s.run([dequeued, weights])
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        x = tf.placeholder(tf.float32, [replicas, 4, 5])
        with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
            each = tf.stack([loss_of(x[i], lambda _: tf.name_scope("s")) for i in range(replicas)])
        train = tf.train.GradientDescentOptimizer(0.2).minimize(tf.reduce_mean(each))
        with tf.Session() as s:
            s.run(tf.global_variables_initializer())
            for step in range(steps):
                want, _ = s.run([each, train], {x: features[step * 2:step * 2 + 2]})
                np.testing.assert_allclose(losses[step], want, rtol=2e-5, atol=2e-6)
            for mine, want in zip(got, s.run(tf.trainable_variables())):
                np.testing.assert_allclose(mine, want, rtol=5e-5, atol=1e-5)


# ---- Within a replica ----

def on_shards(values, dtype=tf.float32):
    """The values, each computed on its own shard."""
    shards = []
    for i, value in enumerate(values):
        with ipu.scopes.ipu_shard(i):
            shards.append(tf.constant(value, dtype) + tf.zeros([], dtype)
                          if dtype != tf.bool else tf.identity(tf.constant(value)))
    return shards


def within(session, on_ipu, function):
    results = on_ipu(function)
    with session() as s:
        return [one.tolist() for one in s.run(results)]


@pytest.mark.parametrize("op,expected", [
    ("ADD", [6, 60, 5]), ("MUL", [6, 6000, 0]), ("MIN", [1, 10, 0]), ("MAX", [3, 30, 5])])
def test_all_reduce_within(devices, session, on_ipu, op, expected):
    devices(4)
    got = within(session, on_ipu, lambda: within_replica_ops.all_reduce(
        on_shards([[1, 10], [2, 20, 5], [3, 30]]), f"COLLECTIVE_OP_{op}"))
    assert got == [expected] * 3


def test_other_collectives_within(devices, session, on_ipu):
    devices(2)
    add = "COLLECTIVE_OP_ADD"
    assert within(session, on_ipu, lambda: within_replica_ops.reduce_scatter(
        on_shards([[1, 2, 3], [4, 5, 6]]), add)) == [[5, 7], [9, 0]]
    assert within(session, on_ipu, lambda: within_replica_ops.reduce_scatter(
        on_shards([1, 2]), add)) == [[3], [0]]
    assert within(session, on_ipu, lambda: within_replica_ops.all_gather(
        on_shards([[[1, 2]], [[3, 4]]]), axis=1)) == [[[1, 2, 3, 4]]] * 2
    assert within(session, on_ipu, lambda: within_replica_ops.all_gather(
        on_shards([1, 2]))) == [[1, 2]] * 2
    assert within(session, on_ipu, lambda: within_replica_ops.all_reduce(
        on_shards([[True, False], [True, True]], tf.bool), "COLLECTIVE_OP_LOGICAL_AND")) == [
            [True, False]] * 2
    assert within(session, on_ipu, lambda: within_replica_ops.all_reduce(
        on_shards([[1], [2]]), "COLLECTIVE_OP_LOCAL")) == [[1], [2]]


@pytest.mark.parametrize("length,parts", [
    (1, [[1], [0], [0], [0]]), (2, [[1], [2], [0], [0]]), (4, [[1], [2], [3], [4]]),
    (5, [[1, 2], [3, 0], [4, 0], [5, 0]]), (6, [[1, 2], [3, 4], [5, 0], [6, 0]]),
    (7, [[1, 2], [3, 4], [5, 6], [7, 0]]), (8, [[1, 2], [3, 4], [5, 6], [7, 8]])])
def test_parts_of_a_reduction_within(devices, session, on_ipu, length, parts):
    """They are even: the first shards have one element more."""
    devices(4)

    def net():
        shards = on_shards([[(i + 1) * (n + 1) for n in range(length)] for i in range(4)])
        return within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_ADD")

    assert within(session, on_ipu, net) == [[10 * one for one in part] for part in parts]


def test_gradients_of_uneven_parts_within(devices, session, on_ipu):
    devices(2)

    def net():
        a, b = on_shards([[1., 2., 3.], [4., 5., 6.]], tf.float32)
        parts = within_replica_ops.reduce_scatter([a, b], "COLLECTIVE_OP_ADD")
        return tf.gradients(tf.add_n([tf.reduce_sum(one ** 2) for one in parts]), [a, b])

    assert within(session, on_ipu, net) == [[10, 14, 18]] * 2


def test_gradients_within(devices, session, on_ipu):
    devices(2)

    def net():
        a, b = on_shards([[1, 1], [2, 2]])
        gathered = within_replica_ops.all_gather([a, b])
        return tf.gradients(tf.add_n([tf.reduce_mean(one ** 2) for one in gathered]), [a, b])

    assert within(session, on_ipu, net) == [[1, 1], [2, 2]]


@pytest.mark.parametrize("shards,words", [
    (lambda a, b: [a, a], "duplicate"),
    (lambda a, b: [a, tf.cast(b, tf.int32)], "same type"),
    (lambda a, b: [a, b[:1][0]], "same rank"),
])
def test_wrong_shards(shards, words):
    for function in (within_replica_ops.all_gather,
                     lambda one: within_replica_ops.all_reduce(one, "COLLECTIVE_OP_ADD")):
        with pytest.raises(ValueError, match=words):
            function(shards(*on_shards([[1, 1], [2, 2]])))


@pytest.mark.parametrize("function", [
    within_replica_ops.all_gather,
    lambda shards: within_replica_ops.all_reduce(shards, "COLLECTIVE_OP_ADD"),
    lambda shards: within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_ADD")])
def test_shards_in_another_order_are_refused_when_the_program_runs(devices, session, on_ipu,
                                                                   function):
    devices(2)
    compiled = on_ipu(lambda: function(on_shards([[1, 1], [2, 2]])[::-1]))
    with session() as s, pytest.raises(tf.errors.FailedPreconditionError,
                                       match="in the order of their shards"):
        s.run(compiled)


def test_wrong_arguments_within():
    a, b = on_shards([[1, 1], [2, 2]])
    with pytest.raises(ValueError, match="all have the same sizes"):
        within_replica_ops.all_gather([tf.zeros([1, 2, 3]), tf.zeros([1, 3, 3])])
    with pytest.raises(ValueError, match="There is no reduction"):
        within_replica_ops.all_reduce([a, b], "sum")
