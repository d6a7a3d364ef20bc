"""Ctrl-C while a session runs: KeyboardInterrupt, or the program's own handler, and the session
is as good as before."""

import signal
import textwrap

import pytest
import tensorflow.compat.v1 as tf

_BEGINNING = """
    import os, signal, threading, time
    # A shell that starts a job in the background makes it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    from tremula.tf.runtime.device import plugin
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    def soon(act):
        '''Acts when a run has begun, however long that takes.'''
        def wait():
            while not plugin.library().trm_tf_interrupt_is_watched():
                time.sleep(0.01)
            time.sleep(0.1)
            act()
        threading.Thread(target=wait, daemon=True).start()

    def variable():
        with tf.variable_scope("", reuse=tf.AUTO_REUSE, use_resource=True):
            return tf.get_variable("v", [], initializer=tf.zeros_initializer())

    def compiled(program, inputs=()):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(program, list(inputs))

    class Mine(Exception):
        pass
"""

_LOOP = _BEGINNING + """
    def program(n, x):
        result = ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.01, [x])
        with tf.control_dependencies([variable().assign_add(1.0)]):
            return tf.identity(result)

    n = tf.placeholder(tf.int32, [])
    result = compiled(program, [n, tf.ones([64, 64])])
    v = variable()
    saver = tf.train.Saver()
    HOURS = 2000000000
"""

_FEED = _BEGINNING + """
    budget = threading.Semaphore(100)

    def numbers():
        while True:
            budget.acquire()
            yield np.float32(1.0)

    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_generator(numbers, tf.float32, []))
    step = compiled(lambda: ipu.loops.repeat(1000, lambda x: variable().assign_add(x).op, [],
                                             feed))
    v = variable()
    saver = tf.train.Saver()
"""


@pytest.fixture
def program(script):
    """Runs the parts of a program in a process of its own; returns the completed process."""
    return lambda *parts: script("".join(textwrap.dedent(one) for one in parts))


def test_loops(program, tmp_path):
    """Python's handler, one of the program's own, another thread; then SIGTERM, which nothing
    touches. A process starts slowly, so one is for all of these."""
    process = program(_LOOP, f"""
        from tensorflow.core.protobuf import config_pb2
        from tremula.tf.runtime.lowering import lowering

        def caught(words, kind, run, act=None):
            try:
                if act is not None:
                    soon(act)
                run()
            except kind as error:
                # In one piece: two threads write here.
                print(f"{{words}} {{error.__cause__}} {{error.__suppress_context__}}\\n", end="")

        lower = lowering.lower
        def lower_interrupted(*arguments, **keywords):
            interrupt()
            return lower(*arguments, **keywords)

        options = config_pb2.CallableOptions(feed=[n.name], fetch=[result[0].name])
        x = tf.placeholder(tf.float32, [None, 64])
        late = compiled(program, [n, x])
        handled = threading.Event()
        def wait(x):
            interrupt()
            handled.wait()
            return x
        waiting = tf.py_func(wait, [n], tf.int32)
        waiting.set_shape([])
        slow = compiled(program, [waiting, tf.ones([64, 64])])

        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for run in (lambda: session.run(result, {{n: HOURS}}),
                        lambda: session.make_callable(result, [n])(HOURS),
                        lambda: session._make_callable_from_options(options)(np.int32(HOURS))):
                session.run(result, {{n: 1}})
                caught("caught", KeyboardInterrupt, run, interrupt)
                saver.save(session, {str(tmp_path / "saved")!r})
            session.run(result, {{n: 1}})
            print(session.run(v))
            saver.restore(session, {str(tmp_path / "saved")!r})
            print(session.run(v), signal.getsignal(signal.SIGINT) is signal.default_int_handler)

            lowering.lower = lower_interrupted  # one that comes before the run begins
            caught("compiling", KeyboardInterrupt,
                   lambda: session.run(late, {{n: HOURS, x: np.ones([64, 64])}}))
            lowering.lower = lower

            ended = threading.Event()
            def work():
                caught("thread", tf.errors.CancelledError,
                       lambda: session.run(result, {{n: HOURS}}))
                ended.set()
            threading.Thread(target=work).start()
            caught("main", KeyboardInterrupt, ended.wait, interrupt)
            while not ended.wait(1):  # on a busy machine the run may have begun after that
                try:
                    interrupt()
                    time.sleep(1)
                except KeyboardInterrupt:
                    pass
            print(session.run(v))

            def handle(*_):
                print("handled", threading.current_thread() is threading.main_thread())
                handled.set()
            signal.signal(signal.SIGINT, handle)
            session.run(slow, {{n: 1}})
            print(session.run(v))
            def fail(*_):
                raise Mine
            signal.signal(signal.SIGINT, fail)
            caught("mine", Mine, lambda: session.run(result, {{n: HOURS}}), interrupt)
            session.run(result, {{n: 1}})
            print(session.run(v), flush=True)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            soon(lambda: os.kill(os.getpid(), signal.SIGTERM))
            session.run(result, {{n: HOURS}})
        """)
    lines = process.stdout.splitlines()
    threads = ["main None False", "thread None False"]
    assert sorted(lines[6:8]) == threads, process.stderr[-3000:]
    assert lines[:6] + lines[8:] == ["caught None True"] * 3 + [
        "4.0", "3.0 True", "compiling None True", "3.0", "handled True", "4.0", "mine None False",
        "5.0"], process.stderr[-3000:]
    assert process.returncode == -signal.SIGTERM, process.stderr[-2000:]


def test_an_infeed_that_waits_for_data(program, tmp_path):
    """For ever: the interrupted step is left to itself, and later ones get the data. A handler that
    does not raise runs while the step waits, which goes on."""
    process = program(_FEED, f"""
        handled = threading.Event()
        def handle(*_):
            print("handled")
            budget.release(3000)
            handled.set()

        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), feed.initializer])
            try:
                soon(interrupt)
                session.run(step)
            except KeyboardInterrupt:
                saver.save(session, {str(tmp_path / "saved")!r})
                print("caught", session.run(v))
            budget.release(3000)
            session.run(step)
            print(session.run(v))
            while budget.acquire(blocking=False):
                pass
            signal.signal(signal.SIGINT, handle)
            soon(interrupt)
            session.run(step)
            handled.wait()
            print(session.run(v))
        """)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.splitlines() == ["caught 0.0", "1000.0", "handled", "2000.0"]


@pytest.mark.skipif(not hasattr(tf, "estimator") or not hasattr(tf.estimator, "Estimator"),
                    reason="this TensorFlow has no estimators")
def test_an_estimator(program, tmp_path):
    """Its training stops; it goes on from its last checkpoint."""
    process = program(_BEGINNING, f"""
        interrupts_at = {{40}}
        def numbers():
            k = 0
            while True:
                if k in interrupts_at:
                    interrupts_at.remove(k)
                    interrupt()
                k += 1
                yield np.float32([k])
        def input_fn():
            return tf.data.Dataset.from_generator(numbers, tf.float32, [1]).map(
                lambda x: (x, x))
        def model_fn(features, labels, mode, params):
            loss = tf.reduce_sum(variable() * 0.0 * features + labels * 0.0)
            return tf.estimator.EstimatorSpec(
                mode, loss=loss,
                train_op=tf.train.GradientDescentOptimizer(0.1).minimize(loss))
        estimator = ipu.ipu_estimator.IPUEstimator(model_fn, params={{}},
            config=ipu.ipu_run_config.RunConfig(
                ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=4,
                                                               ipu_options=config),
                model_dir={str(tmp_path)!r}, save_checkpoints_steps=4))
        try:
            estimator.train(input_fn, steps=1000000)
        except KeyboardInterrupt:
            print("caught")
        estimator.train(input_fn, steps=4)
        print(estimator.get_variable_value("global_step") > 4)
        """)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.split() == ["caught", "True"]
