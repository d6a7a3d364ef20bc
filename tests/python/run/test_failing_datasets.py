"""A dataset that fails at its n-th element, under each kind of feed: the run that reads the element
ends with the dataset's own words, nothing hangs, and the session and the device go on to work."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu
from tensorflow.python.ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow.python.ipu.ipu_outfeed_queue import IPUOutfeedQueue

WORDS = "the disc is scratched"
STEPS = 4  # elements a run
Schedule = ipu.pipelining_ops.PipelineSchedule


class Broken:
    """A dataset of 0, 1, 2, ... that fails at its n-th element as long as `n` is set: a Python
    generator that raises, or an op of TensorFlow that fails."""

    def __init__(self, kind):
        self.n = None
        if kind == "generator":
            self.dataset = tf.data.Dataset.from_generator(self._values, tf.float32, [])
        else:
            self.dataset = tf.data.Dataset.range(1000).map(lambda i: tf.py_func(
                self._value, [i], tf.float32)).map(lambda x: tf.reshape(x, []))

    def _value(self, i):
        if i == self.n:
            raise ValueError(WORDS)
        return np.float32(i)

    def _values(self):
        for i in range(1000):
            yield self._value(i)


def looped(on_ipu, feed, out):
    return on_ipu(lambda: ipu.loops.repeat(STEPS, lambda x: out.enqueue(x), [], feed))


def while_looped(on_ipu, feed, out):
    def body(i, x):
        enqueued = out.enqueue(x)
        with tf.control_dependencies([enqueued]):
            return i + 1
    return on_ipu(lambda: ipu.loops.while_loop(lambda i: i < STEPS, body, [0], feed))


def pipelined(schedule):
    def build(on_ipu, feed, out):
        def model():
            return ipu.pipelining_ops.pipeline(
                [lambda x: x + 0., lambda x: x * 1.], gradient_accumulation_count=STEPS,
                infeed_queue=feed, outfeed_queue=out, device_mapping=[0, 0],
                pipeline_schedule=schedule)
        return on_ipu(model)
    return build


BUILDS = {"repeat": looped, "while_loop": while_looped,
          **{schedule.name: pipelined(schedule) for schedule in Schedule}}


def check(session, broken, feed, out, run, n, elements=STEPS):
    """Runs until element n is read, which fails, then again from the beginning, whole."""
    broken.n, start, values = n, feed.initializer, out.dequeue()
    with session() as s:
        s.run(start)
        for _ in range(n // elements):
            s.run(run)
        s.run(values)
        with pytest.raises(tf.errors.OpError) as failure:
            s.run(run)
        assert WORDS in str(failure.value)
        assert not isinstance(failure.value, (tf.errors.OutOfRangeError, tf.errors.CancelledError))
        assert np.size(s.run(values)) <= n % elements
        broken.n = None
        s.run(start)
        s.run(run)
        assert np.ravel(s.run(values)).tolist() == list(range(elements))
        assert s.run(tf.constant(3.)) == 3


@pytest.mark.parametrize("kind", ["generator", "op"])
@pytest.mark.parametrize("name", BUILDS)
def test_each_kind_of_loop(on_ipu, session, name, kind):
    broken = Broken(kind)
    feed, out = IPUInfeedQueue(broken.dataset), IPUOutfeedQueue()
    check(session, broken, feed, out, BUILDS[name](on_ipu, feed, out), 2 * STEPS + 2)


@pytest.mark.parametrize("n", [0, STEPS, STEPS + 1, 2 * STEPS - 1])
@pytest.mark.parametrize("depth", [1, 3, 2 * STEPS + 1])
def test_each_element_and_depth(on_ipu, session, depth, n):
    """At the first and the last element of a run: the run before it is not spoilt."""
    broken = Broken("generator")
    feed, out = IPUInfeedQueue(broken.dataset, prefetch_depth=depth), IPUOutfeedQueue()
    check(session, broken, feed, out, looped(on_ipu, feed, out), n)


def test_prefetched_by_tensorflow(on_ipu, session):
    """tf.data keeps the error until its element is asked for."""
    broken = Broken("op")
    feed = IPUInfeedQueue(broken.dataset.prefetch(8))
    out = IPUOutfeedQueue()
    check(session, broken, feed, out, looped(on_ipu, feed, out), 2 * STEPS + 1)


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas(on_ipu, session, devices, replicas):
    devices(replicas)
    broken = Broken("generator")
    feed, out = IPUInfeedQueue(broken.dataset), IPUOutfeedQueue()
    check(session, broken, feed, out, looped(on_ipu, feed, out), STEPS * replicas + 1,
          STEPS * replicas)


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no estimators")
def test_estimators(tmp_path):
    broken = Broken("op")

    def model(features, labels, mode):
        del labels
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.square(w - features))
        train = tf.train.GradientDescentOptimizer(.01).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=STEPS, num_shards=1),
        model_dir=str(tmp_path), log_step_count_steps=STEPS)
    estimator = ipu.ipu_estimator.IPUEstimator(model, config=config)
    broken.n = 2 * STEPS + 1
    with pytest.raises(tf.errors.OpError) as failure:
        estimator.train(lambda: broken_dataset(broken), steps=4 * STEPS)
    assert WORDS in str(failure.value)
    broken.n = None
    estimator.train(lambda: broken_dataset(broken), steps=2 * STEPS)
    assert estimator.get_variable_value("global_step") >= 2 * STEPS


def broken_dataset(broken):
    """The dataset in the graph of the moment."""
    return tf.data.Dataset.range(1000).map(lambda i: tf.py_func(
        broken._value, [i], tf.float32)).map(lambda x: tf.reshape(x, [])).map(lambda x: (x, x))
