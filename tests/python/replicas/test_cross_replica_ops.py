"""Operations across replicas: values, gradients, groups, messages, and who may call them how."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import cross_replica_ops, replication_ops
from tensorflow.python.ipu.ops import all_to_all_op, reduce_scatter_op

pytestmark = pytest.mark.smoke


def run(session, replicas, function, *inputs):
    """function(index, *inputs) on every replica: one array for each tensor, replicas first."""
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def program(*values):
        results = function(tf.cast(replication_ops.replication_index(), tf.float32), *values)
        return outfeed.enqueue(list(results) if isinstance(results, (tuple, list)) else [results])

    placeholders = [tf.placeholder(tf.as_dtype(np.asarray(one).dtype), np.shape(one))
                    for one in inputs]
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        op = ipu.ipu_compiler.compile(program, placeholders)
    dequeued = outfeed.dequeue()
    with session() as s:
        s.run(op, dict(zip(placeholders, inputs)))
        return [one[0] if replicas > 1 else one for one in s.run(dequeued)]


def test_names():
    assert ipu.cross_replica_ops is ipu.ops.cross_replica_ops is cross_replica_ops
    assert ipu.all_to_all_op is all_to_all_op and ipu.reduce_scatter_op is reduce_scatter_op
    assert ipu.replication_ops is ipu.ops.replication_ops
    assert ipu.cross_replica_optimizer is ipu.optimizers.cross_replica_optimizer
    for name in ("cross_replica_ops_grad", "all_to_all_op_grad", "within_replica_ops_grad"):
        assert getattr(ipu, name) is getattr(ipu.ops, name)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_sum_and_mean(devices, session, dtype):
    devices(4)
    x = np.array([[1, 2], [3, 4]], dtype)

    def net(index, x):
        x += tf.cast(index, x.dtype)
        return (cross_replica_ops.cross_replica_sum(x),
                cross_replica_ops.cross_replica_sum(x, 2, "named"),
                cross_replica_ops.cross_replica_mean(x, replica_group_size=2))

    total, pairs, means = run(session, 4, net, x)
    for r in range(4):
        low = r // 2 * 2
        assert total[r].tolist() == (4 * x + 6).tolist()
        assert pairs[r].tolist() == (2 * x + low + low + 1).tolist()
        expected = (2 * x + low + low + 1)
        assert means[r].tolist() == (expected // 2 if dtype == np.int32 else expected / 2).tolist()


def test_one_replica(session):
    values = run(session, 1, lambda i, x: (
        cross_replica_ops.cross_replica_sum(x), cross_replica_ops.cross_replica_mean(x, 1),
        all_to_all_op.all_gather(x, 1), reduce_scatter_op.reduce_scatter(x, 1),
        all_to_all_op.all_to_all(x, 0, 0, 1), replication_ops.replication_factor()),
        np.arange(3, dtype=np.float32))
    assert [one[0].tolist() for one in values] == [[0, 1, 2], [0, 1, 2], [[0, 1, 2]], [0, 1, 2],
                                                   [0, 1, 2], 1]


def test_gradients(devices, session):
    """Of sum_r (c_r . y_r), with c_r different on every replica: the transposed exchange."""
    devices(2)
    x = np.arange(4, dtype=np.float32)

    def gradient(index, x, y):
        # Weights that tell replicas and places apart.
        weights = tf.reshape(tf.range(1., 1. + y.shape.num_elements()), y.shape) + 100. * index
        return tf.gradients(tf.reduce_sum(y * weights), x)[0]

    def net(index, x):
        x += index
        return [gradient(index, x, one) for one in (
            cross_replica_ops.cross_replica_sum(x), cross_replica_ops.cross_replica_mean(x),
            all_to_all_op.all_gather(x, 2),
            all_to_all_op.all_to_all(tf.reshape(x, [2, 2]), 0, 1, 2))]

    total, mean, gathered, exchanged = run(session, 2, net, x)
    both = [102, 104, 106, 108]  # (1, 2, 3, 4) + (101, 102, 103, 104)
    assert total.tolist() == [both, both]
    assert mean.tolist() == [[one / 2 for one in both]] * 2
    assert gathered.tolist() == [[102, 104, 106, 108], [110, 112, 114, 116]]
    # y_r = [[row r of replica 0, row r of replica 1]]
    assert exchanged.tolist() == [[1, 2, 101, 102], [3, 4, 103, 104]]


def test_all_gather_and_all_to_all(devices, session):
    devices(2)

    def net(index, x):
        x += 100. * index
        return (*all_to_all_op.all_gather([x, x[0]], 2, "name"),
                all_to_all_op.all_to_all(x, 1, 0, 2), all_to_all_op.all_to_all(x, 1, 1, 2))

    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    all_of_it, rows, tall, wide = run(session, 2, net, x)
    for r in range(2):
        assert all_of_it[r].tolist() == [x.tolist(), (x + 100).tolist()]
        assert rows[r].tolist() == [x[0].tolist(), (x[0] + 100).tolist()]
        parts = [x[:, r:r + 1], x[:, r:r + 1] + 100]
        assert tall[r].tolist() == np.concatenate(parts, 0).tolist()
        assert wide[r].tolist() == np.concatenate(parts, 1).tolist()


def test_reduce_scatter(devices, session):
    devices(2)

    def net(index, x):
        x += index
        return (reduce_scatter_op.reduce_scatter(x, 2),
                reduce_scatter_op.reduce_scatter(x, replication_factor=2, op="COLLECTIVE_OP_MUL"),
                reduce_scatter_op.reduce_scatter(x, 2, "a_name_as_before_2_0"),
                reduce_scatter_op.reduce_scatter(x, 2, "COLLECTIVE_OP_LOCAL", "name"),
                *reduce_scatter_op.reduce_scatter([x, x[:2]], 2, "COLLECTIVE_OP_MEAN"))

    got = run(session, 2, net, np.array([1, 2, 3], np.float32))
    assert [one.tolist() for one in got] == [
        [[3, 5], [7, 0]], [[2, 6], [12, 0]], [[3, 5], [7, 0]], [[1, 2], [4, 0]],
        [[1.5, 2.5], [3.5, 0]], [[1.5], [2.5]]]


def test_shapes_that_are_known_when_it_runs(devices, session):
    devices(2)
    x = tf.placeholder(tf.float32, [None])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        total, mean = ipu.ipu_compiler.compile(
            lambda x: (cross_replica_ops.cross_replica_sum(x),
                       cross_replica_ops.cross_replica_mean(x)), [x])
    with session() as s:
        for size in (3, 5):
            got = s.run([total, mean], {x: np.arange(size)})
            assert got[0].tolist() == (2 * np.arange(size)).tolist()
            assert got[1].tolist() == np.arange(size).tolist()


def test_inside_control_flow(devices, session):
    devices(2)

    def net(index):
        def body(i, x):
            return i + 1, tf.cond(i < 2, lambda: cross_replica_ops.cross_replica_sum(x),
                                  lambda: cross_replica_ops.cross_replica_mean(x + index))
        return tf.while_loop(lambda i, _: i < 3, body, [0, index + 1.])[1]

    total, = run(session, 2, net)
    assert total.tolist() == [6.5, 6.5]  # 1, 2 -> 3, 3 -> 6, 6 -> the mean of 6 and 7


def test_replicas_that_go_different_ways(devices, session):
    devices(2)

    def net(index):
        index, = ipu.cross_replica_ops.assume_equal_across_replicas([index], inplace=True)
        return tf.cond(index < 1., lambda: cross_replica_ops.cross_replica_sum(index),
                       lambda: index)

    with pytest.raises(tf.errors.FailedPreconditionError, match="must take the same branches"):
        run(session, 2, net)


def test_group_that_does_not_divide(devices, session):
    devices(4)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"The replica group size \(got 3\) does not evenly divide the total "
                             r"number of replicas \(got 4\)"):
        run(session, 4, lambda i: cross_replica_ops.cross_replica_sum(i, 3))


def test_wrong_replication_factor(devices, session):
    devices(4)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"group size \(got 8\)"):
        run(session, 4, lambda i: all_to_all_op.all_gather(i, 8))


@pytest.mark.parametrize("call,words", [
    (lambda x: cross_replica_ops.cross_replica_sum(x, "2"), "replica_group_size must be a number"),
    (lambda x: all_to_all_op.all_gather(x, 0), "replication_factor must be a number"),
    (lambda x: all_to_all_op.all_to_all(x, 0, 2, 2), "has no dimension 2"),
    (lambda x: all_to_all_op.all_to_all(x, 0, 1, 3), "cannot be split evenly over 3 replicas"),
    (lambda x: reduce_scatter_op.reduce_scatter(x, 2), "takes tensors of rank 1"),
    (lambda x: reduce_scatter_op.reduce_scatter(x[0], 2, op="sum"), "There is no reduction 'sum'"),
])
def test_wrong_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call(tf.zeros([2, 2]))


def test_optimizer_leaves_what_has_no_gradient():
    v = tf.get_variable("v", [], use_resource=True)
    assert ipu.cross_replica_optimizer.apply_cross_replica_op_single(None, v) == (None, v)
    assert ipu.cross_replica_optimizer.apply_cross_replica_op([(None, v)]) == [(None, v)]
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
        tf.train.MomentumOptimizer(0.1, 0.9))
    assert optimizer._name == "CrossReplicaOptimizer"
    assert optimizer.get_slot_names() == []


def test_finding_them_in_a_graph():
    x = tf.zeros([2])
    graph = tf.get_default_graph()
    assert not cross_replica_ops.in_graph(graph)
    with tf.Graph().as_default() as other:
        cross_replica_ops.cross_replica_sum(tf.zeros([2]))
        assert cross_replica_ops.in_graph(other)
    del x


def test_reduce_scatter_of_less_than_there_are_replicas(devices, session):
    devices(4)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    inputs = [np.arange(1, n + 1, dtype=np.float32) for n in (1, 2, 3, 5)]
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda *values: outfeed.enqueue(
            [reduce_scatter_op.reduce_scatter(one, 4) for one in values]), inputs)
    parts = outfeed.dequeue()
    with session() as s:
        s.run(run)
        for one, found in zip(inputs, s.run(parts)):
            whole = np.zeros(found.size)
            whole[:len(one)] = 4 * one
            np.testing.assert_array_equal(found.ravel(), whole)


def test_normalising_where_nothing_is_compiled(devices, session):
    devices(2)
    with tf.device("/device:IPU:0"):
        half = ipu.replication_ops.replication_normalise(tf.ones([3]))
    with session() as s:
        np.testing.assert_array_equal(s.run(half), [0.5, 0.5, 0.5])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_normalising_multiplies(devices, session, dtype):
    """As in the original, by the inverse: 5 / 3 is another number."""
    devices(3)
    x = np.array([5, 7, 11, 49], dtype)
    found, = run(session, 3, lambda _, x: replication_ops.replication_normalise(x), x)
    inverse = np.float32(1) / np.float32(3)
    assert (x / dtype(3) != x * dtype(inverse)).any()
    np.testing.assert_array_equal(found, [x * dtype(inverse)] * 3)
