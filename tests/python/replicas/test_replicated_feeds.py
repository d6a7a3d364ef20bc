"""Feeds with replicas: who gets what, and the shapes of what comes out."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

IPUOutfeedMode = ipu.ipu_outfeed_queue.IPUOutfeedMode


def elements(count):
    return tf.data.Dataset.range(count).map(
        lambda i: {"a": tf.cast(i, tf.float32), "b": tf.fill([2, 3], tf.cast(i, tf.int32))})


def program(steps, infeed, outfeed):
    """Enqueues what it dequeues, and gives the sum of `a`."""
    def body(total, a, b):
        return total + a, outfeed.enqueue({"x": (a, b), "y": a * 10.})
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(steps, body, [0.], infeed))


@pytest.mark.parametrize("replicas", [2, 4, 16])
def test_all(devices, session, replicas):
    devices(replicas)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(1000))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, dequeued = program(3, infeed, outfeed), outfeed.dequeue()
    assert dequeued["x"][1].shape.as_list() == [None, replicas, 2, 3]
    with session() as s:
        s.run(infeed.initializer)
        empty = s.run(dequeued)
        assert empty["y"].size == 0
        first = s.run(run)
        assert first == [sum(step * replicas for step in range(3))]  # of replica 0
        s.run(run)
        got = s.run(dequeued)
        expected = np.arange(6 * replicas).reshape(6, replicas)
        assert got["x"][0].tolist() == expected.tolist()
        assert got["x"][1].tolist() == np.broadcast_to(
            expected[:, :, None, None], [6, replicas, 2, 3]).tolist()
        assert got["y"].tolist() == (expected * 10).tolist()
        assert s.run(dequeued)["y"].shape == (0, replicas)


def test_last(devices, session):
    devices(2)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(1000))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    run, dequeued = program(3, infeed, outfeed), outfeed.dequeue()
    assert dequeued["x"][1].shape.as_list() == [2, 2, 3]
    with session() as s:
        s.run(infeed.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="before it was executed"):
            s.run(dequeued)
        s.run(run)
        for _ in range(2):
            got = s.run(dequeued)
            assert got["y"].tolist() == [40, 50]
            assert got["x"][1].tolist() == [[[4] * 3] * 2, [[5] * 3] * 2]


def test_old_arguments(devices, session):
    """The replication factor that the first releases wanted to be told."""
    devices(2)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(100), "in", 0, 2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue("out", IPUOutfeedMode.ALL,
                                                    replication_factor=2)
    run, dequeued = program(2, infeed, outfeed), outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        s.run(run)
        assert s.run(dequeued)["y"].tolist() == [[0, 10], [20, 30]]


def test_data_that_end_within_a_step(devices, session):
    devices(2)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(7))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, start, dequeued = program(4, infeed, outfeed), infeed.initializer, outfeed.dequeue()
    with session() as s:
        s.run(start)
        with pytest.raises(tf.errors.OutOfRangeError, match="Infeed dataset iterator out of range"):
            s.run(run)
        assert s.run(dequeued)["y"].tolist() == [[0, 10], [20, 30], [40, 50]]
        s.run(start)  # from the beginning, with replica 0 first again
        with pytest.raises(tf.errors.OutOfRangeError):
            s.run(run)
        assert s.run(dequeued)["y"].tolist() == [[0, 10], [20, 30], [40, 50]]


def test_configured_after_the_graph_was_built(devices, session):
    """Nothing is known of the shapes then, and everything works."""
    ipu.config.reset_ipu_configuration()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(100))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    run, dequeued = program(2, infeed, outfeed), outfeed.dequeue()
    assert dequeued["y"].shape.rank is None
    mean = tf.reduce_mean(dequeued["y"], axis=0)
    devices(2)
    with session() as s:
        s.run(infeed.initializer)
        s.run(run)
        assert s.run(mean).tolist() == [10, 20]


def test_feeds_of_another_replication_factor(devices, session):
    """Deleting an infeed lets it be used by others."""
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements(100))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    start, delete = infeed.initializer, infeed.deleter
    run = program(2, infeed, outfeed)
    devices(2)
    with session() as s:
        s.run(start)
        s.run(run)
        devices(4)
        with pytest.raises(tf.errors.FailedPreconditionError, match=(
                f"Iterator for feed {infeed._id} has already been setup with a replication factor "
                "of 2 when it should have 4")):
            s.run(run)
        s.run(delete)
        s.run(start)
        with pytest.raises(tf.errors.FailedPreconditionError, match=(
                f"Outfeed with id='{outfeed._id}' already exists but with a different tensor shape "
                "or replication factor")):
            s.run(run)


@pytest.mark.parametrize("kind", ["infeed", "outfeed"])
def test_a_queue_made_for_another_number_of_replicas(devices, session, kind):
    devices(2)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensors(1.0).repeat(), "in", replication_factor=4)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue("out", replication_factor=4)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        if kind == "infeed":
            run = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(2, lambda total, x: total + x, [0.0], infeed))
        else:
            run = ipu.ipu_compiler.compile(lambda: outfeed.enqueue(tf.constant(1.0)))
    with session() as s:
        s.run(infeed.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match=(
                f"created with replication_factor 2, but its {kind} .* replication_factor 4")):
            s.run(run)
