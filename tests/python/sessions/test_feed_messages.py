"""What wrong uses of infeeds say, in the original's words."""

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def infeed():
    return ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())


def test_not_initialized(on_ipu, session):
    feed = infeed()
    program = on_ipu(lambda: ipu.loops.repeat(2, lambda v, x: v + x, [0.0], feed))
    start = feed.initializer
    with session() as run:
        with pytest.raises(tf.errors.FailedPreconditionError, match=(
                "Trying to access an infeed dataset iterator which has not been created. Did you "
                f"initialize the infeed_queue '{feed._id}' ?")):
            run.run(program)
        run.run(start)
        assert run.run(program) == [2.0]


def test_taken_twice_and_never(on_ipu, session):
    twice, never = infeed(), infeed()
    program = on_ipu(lambda: ipu.loops.repeat(
        2, lambda v, x: v + x + twice._dequeue(), [0.0], twice))
    with session() as run:
        run.run(twice.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="multiple times on the same"):
            run.run(program)
    never._dequeue = lambda: 1.0
    with pytest.raises(ValueError, match="The infeed queue has not been dequeued."):
        on_ipu(lambda: ipu.loops.repeat(2, lambda v, x: v + x, [0.0], never))


def test_outside_of_programs():
    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="Unsupported use of infeed operation - it's only supported inside"):
        infeed()._dequeue()


def test_an_outfeed_that_nobody_has_written_to(session):
    delete = ipu.ipu_outfeed_queue.IPUOutfeedQueue().deleter
    with session() as run:
        with pytest.raises(tf.errors.NotFoundError, match="Outfeed with id='"):
            run.run(delete)


def test_a_queue_is_called_by_its_name():
    """As in the original; a second one of the name, which that refuses, gets a number."""
    name = "called by its name"
    first, second = (ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name=name) for _ in range(2))
    with tf.Session() as session:
        for queue, wanted in ((first, name), (second, f"{name}.2")):
            delete = queue.deleter
            with pytest.raises(tf.errors.NotFoundError, match=f"Outfeed with id='{wanted}'"):
                session.run(delete)
