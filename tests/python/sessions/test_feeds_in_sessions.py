"""Feeds over sessions and threads; errors in the middle."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def loop(on_ipu, dataset, body, count):
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    program = on_ipu(lambda: ipu.loops.repeat(
        count, lambda *args, **kwargs: out.enqueue(body(*args, **kwargs)), [], feed))
    return feed, out, program


def test_several_sessions_in_turn(on_ipu, session):
    """Each starts the same feeds again."""
    feed, out, program = loop(on_ipu, tf.data.Dataset.range(6).map(
        lambda k: tf.cast(k, tf.float32)), lambda x: x * 2.0, 3)
    start, results, stop = feed.initializer, out.dequeue(), feed.deleter
    for _ in range(3):
        with session() as run:
            run.run(start)
            for wanted in ([0, 2, 4], [6, 8, 10]):
                run.run(program)
                np.testing.assert_array_equal(run.run(results), wanted)
            run.run(stop)


@pytest.mark.parametrize("kind", ["dict", "nested"])
def test_structures(on_ipu, session, kind):
    """Elements keep their structure, into the body and out of it."""
    number = tf.data.Dataset.range(4).map(lambda k: tf.cast(k, tf.float32))
    if kind == "dict":
        dataset = number.map(lambda k: {"a": k, "b": tf.fill([2], k)})

        def body(a, b):
            return {"sum": a + tf.reduce_sum(b), "b": b}
    else:
        dataset = number.map(lambda k: (k, {"b": tf.fill([2], k), "c": (k, k + 1.0)}))

        def body(a, rest):
            return {"sum": a + tf.reduce_sum(rest["b"]), "b": rest["b"] + 0.0 * rest["c"][1]}
    feed, out, program = loop(on_ipu, dataset, body, 2)
    results = out.dequeue()
    with session() as run:
        run.run(feed.initializer)
        for first in (0, 2):
            run.run(program)
            got = run.run(results)
            np.testing.assert_array_equal(got["sum"], [3 * first, 3 * first + 3])
            np.testing.assert_array_equal(got["b"], [[first] * 2, [first + 1] * 2])


def test_dequeuing_while_the_program_runs(on_ipu):
    count = 200
    feed, out, program = loop(on_ipu, tf.data.Dataset.range(10 * count).map(
        lambda k: tf.cast(k, tf.float32)), lambda x: x + 1.0, count)
    results = out.dequeue()
    values, done = [], threading.Event()
    with tf.Session() as run:
        run.run(feed.initializer)

        def collect():
            while True:
                last = done.is_set()
                values.extend(run.run(results))
                if last:
                    return

        def drive():
            for _ in range(5):
                run.run(program)
        run.run(program)  # the queue is known from the first run on
        threads = [threading.Thread(target=collect), threading.Thread(target=drive)]
        for one in threads:
            one.start()
        threads[1].join()
        done.set()
        threads[0].join()
    np.testing.assert_array_equal(values, np.arange(6 * count) + 1)


def test_an_iterator_that_raises_in_the_middle(on_ipu, session):
    """Its error reaches the run, and the next session works."""
    fail = [True]

    def numbers():
        for k in range(6):
            if k == 4 and fail[0]:
                raise ValueError("the fifth file is broken")
            yield np.float32(k)

    dataset = tf.data.Dataset.from_generator(numbers, tf.float32, [])
    feed, out, program = loop(on_ipu, dataset, lambda x: x, 3)
    start, results, stop = feed.initializer, out.dequeue(), feed.deleter
    with session() as run:
        run.run(start)
        run.run(program)
        np.testing.assert_array_equal(run.run(results), [0, 1, 2])
        with pytest.raises(tf.errors.OpError, match="the fifth file is broken"):
            run.run(program)
        run.run(stop)
    fail[0] = False
    with session() as run:
        run.run(start)
        run.run(results)  # what the failed run left
        for wanted in ([0, 1, 2], [3, 4, 5]):
            run.run(program)
            np.testing.assert_array_equal(run.run(results), wanted)


def asking(number):
    """A dataset without an end whose elements are what `number(k)` is when element k is asked for.
    (from_generator asks for more than it gives, and tf.data reads ahead if it is let.)"""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.range(1 << 40).map(
        lambda k: tf.ensure_shape(tf.py_func(number, [k], tf.float32), [])).with_options(options)


def test_what_follows_is_not_asked_for(on_ipu, session):
    """Elements that only a run's results bring about are asked for by the next run."""
    asked, known = [], [0.0]

    def number(k):
        asked.append(k)
        return np.float32(known[0])

    feed, out, program = loop(on_ipu, asking(number), lambda x: x + 1.0, 3)
    results = out.dequeue()
    with session() as run:
        run.run(feed.initializer)
        for k in range(4):
            known[0] = k
            run.run(program)
            assert asked == list(range(3 * k + 3))
            np.testing.assert_array_equal(run.run(results), [k + 1.0] * 3)


def test_a_loop_that_data_end(on_ipu, session):
    """How many elements it takes, only they say; the next run goes on behind them."""
    asked = []

    def number(k):
        if k == 13:
            raise ValueError("too many")
        asked.append(k)
        return np.float32(k + 1)

    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(asking(number))
    program = on_ipu(lambda: ipu.loops.while_loop(
        lambda total: total <= 20.0, lambda total, x: [total + x], [0.0], feed))
    with session() as run:
        run.run(feed.initializer)
        for wanted, count in [(21, 6), (24, 9), (21, 11), (25, 13)]:
            assert np.ravel(run.run(program)) == [wanted]
            assert asked == list(range(count))
        with pytest.raises(tf.errors.OpError, match="too many"):
            run.run(program)
