"""Feeds over sessions and threads; errors and interrupts in the middle."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from end_to_end import ROOT
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


def test_ctrl_c_ends_a_long_run(tmp_path):
    """The process ends soon after the signal, though its program would take hours."""
    text = textwrap.dedent("""
        import signal
        # A shell that starts a job in the background makes it ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import tremula._finder
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        def program(n, x):
            return ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.01, [x])
        n = tf.placeholder(tf.int32, [])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(program, [n, tf.ones([64, 64])])
        with tf.Session() as session:
            session.run(result, {n: 1})
            print("running", flush=True)
            session.run(result, {n: 2000000000})
    """)
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHONPATH=path))
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()[-3000:]
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode != 0 and "KeyboardInterrupt" in errors, errors[-2000:]
