"""Variables have a value on every replica; the host reads that of replica 0."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def counting(outfeed):
    """A program that adds the replica's number + 1 to a variable and enqueues it."""
    def step():
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer(), use_resource=True)
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32)
        value = v.assign_add(tf.fill([2], index + 1.))
        return outfeed.enqueue(tf.identity(value)[0])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(step)


def test_replicas_keep_their_own_values(devices, session):
    devices(4)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, dequeued = counting(outfeed), outfeed.dequeue()
    v = tf.global_variables()[0]
    write = tf.placeholder(tf.float32, [2])
    assign = v.assign(write)
    with session() as s:
        s.run(tf.global_variables_initializer())
        for _ in range(3):
            s.run(run)
        assert s.run(dequeued).tolist() == [[1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12]]
        assert s.run(v).tolist() == [3, 3]  # reading changes nothing
        s.run(run)
        assert s.run(dequeued).tolist() == [[4, 8, 12, 16]]
        s.run(assign, {write: [100, 100]})  # the host writes: all replicas get it
        s.run(run)
        assert s.run(dequeued).tolist() == [[101, 102, 103, 104]]
        s.run(run)
        assert s.run(dequeued).tolist() == [[102, 104, 106, 108]]


def test_another_session_starts_from_its_own_variables(devices, session):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, dequeued = counting(outfeed), outfeed.dequeue()
    for _ in range(2):
        with session() as s:
            s.run(tf.global_variables_initializer())
            s.run(run)
            s.run(run)
            assert s.run(dequeued).tolist() == [[1, 2], [2, 4]]


def test_checkpoints_hold_replica_0(devices, session, tmp_path):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, dequeued = counting(outfeed), outfeed.dequeue()
    saver = tf.train.Saver()
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(run)
        path = saver.save(s, str(tmp_path / "model"))
        s.run(run)
        saver.restore(s, path)
        s.run(run)
        assert s.run(dequeued).tolist() == [[1, 2], [2, 4], [2, 3]]
    assert tf.train.load_variable(path, "v").tolist() == [1, 1]


def test_a_program_that_only_reads_sees_replica_0(devices, session):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run = counting(outfeed)
    v = tf.global_variables()[0]
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        total, = ipu.ipu_compiler.compile(
            lambda: ipu.cross_replica_ops.cross_replica_sum(v.read_value()))
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(run)
        assert s.run(total).tolist() == [2, 2]
        s.run(run)
        assert s.run(total).tolist() == [4, 4]


def test_random_numbers_differ_by_replica(devices, session):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda: outfeed.enqueue(tf.random.uniform([64], seed=1)))
    dequeued = outfeed.dequeue()
    with session() as s:
        ipu.utils.reset_ipu_seed(3)
        s.run(run)
        first = s.run(dequeued)[0]
        assert not np.array_equal(first[0], first[1])
        ipu.utils.reset_ipu_seed(3)
        s.run(run)
        assert np.array_equal(s.run(dequeued)[0], first)
        ipu.utils.reset_ipu_seed(3, experimental_identical_replicas=True)
        s.run(run)
        same = s.run(dequeued)[0]
        assert np.array_equal(same[0], same[1]) and np.array_equal(same[0], first[0])
