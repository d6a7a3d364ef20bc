"""Sessions, threads and processes that end while something runs: no hang, no crash."""

_BEGINNING = """
    import gc, os, sys, threading, time
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    from tremula.tf.runtime.device import plugin
    from tremula.tf.runtime.host import host_calls
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def compiled(program, inputs=()):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(program, list(inputs))

    n = tf.placeholder(tf.int32, [])
    loop = compiled(lambda n, x: ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.01, [x]),
                    [n, tf.ones([64, 64])])
    HOURS = 2000000000
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.range(10 ** 9).map(lambda k: tf.cast(k, tf.float32)))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    fed = compiled(lambda: ipu.loops.repeat(n, lambda x: out.enqueue(x), [], feed))
    start, results, stop = feed.initializer, out.dequeue(), feed.deleter

    def attempt(words, run):
        try:
            run()
            print(words, "passed", flush=True)
        except tf.errors.OpError as error:
            print(words, type(error).__name__, flush=True)

    def computing():
        while not plugin.library().trm_tf_interrupt_is_watched():
            time.sleep(0.01)

    def thread(run, daemon=False):
        one = threading.Thread(target=run, daemon=daemon)
        one.start()
        return one
"""


def lines(process):
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout.splitlines()


def test_sessions_that_end_before_their_runs(script):
    """Closing one cancels what it runs; the next one finds everything in order. A forked process
    ends as its program says."""
    assert lines(script(_BEGINNING + """
    session = tf.Session()
    session.run(loop, {n: 1})
    for code in (7, 8):
        child = os.fork()
        if not child:
            os._exit(7) if code == 7 else sys.exit(8)
        print("child", os.waitpid(child, 0)[1])
    for step in (loop, fed):
        session = tf.Session()
        if step is fed:
            session.run(start)
        session.run(step, {n: 1})
        running = thread(lambda: attempt("running", lambda: session.run(step, {n: HOURS})))
        computing()
        session.close()
        running.join()
        print("closed")
    session = tf.Session()
    session.run(loop, {n: 1})
    del session
    gc.collect()
    with tf.Session() as session:
        attempt("stopping", lambda: session.run(stop))  # the last session's run was its last use
        attempt("not started", lambda: session.run(fed, {n: 1}))
        session.run(start)
        attempt("started", lambda: session.run(fed, {n: 1}))
        attempt("stopping", lambda: session.run(stop))
        attempt("stopping", lambda: session.run(stop))
    """)) == [f"child {7 << 8}", f"child {8 << 8}"] + [
        "running CancelledError", "closed"] * 2 + [
        "stopping passed", "not started FailedPreconditionError", "started passed",
        "stopping passed", "stopping NotFoundError"]


def test_closing_one_of_two_sessions(script):
    """Only its own run ends. The other one's would last for hours and is cancelled when the process
    ends."""
    assert lines(script(_BEGINNING + """
    first, second = tf.Session(), tf.Session()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        other = ipu.ipu_compiler.compile(
            lambda n, x: ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.02, [x]),
            [n, tf.ones([64, 64])])
    first.run(loop, {n: 1})
    second.run(other, {n: 1})
    one = thread(lambda: attempt("first", lambda: first.run(loop, {n: HOURS})))
    two = thread(lambda: attempt("second", lambda: second.run(other, {n: HOURS})), daemon=True)
    while host_calls.running_sessions() != {first, second}:
        time.sleep(0.01)
    computing()
    first.close()
    one.join()
    print("closed", host_calls.running_sessions() == {second}, two.is_alive(), flush=True)
    third = tf.Session()
    third.close()  # has never run
    """))[:2] == ["first CancelledError", "closed True True"]


def test_a_process_that_ends_while_daemon_threads_run(script):
    assert lines(script(_BEGINNING + """
    session = tf.Session()
    session.run(start)
    def dequeue():
        while True:
            session.run(results)
    def use():
        while True:
            session.run(loop, {n: 1000})
    for step in (lambda: session.run(fed, {n: HOURS}), lambda: session.run(loop, {n: HOURS}),
                 dequeue, use):
        thread(step, daemon=True)
    computing()
    print("end", flush=True)
    """)) == ["end"]


def test_a_function_of_atexit_that_runs_a_session(script):
    """It is older than the IPU API, so it comes after whatever ends threads; the program has an
    infeed, whose runs are not made by the main thread itself."""
    assert lines(script("""
    import atexit
    atexit.register(lambda: print("last", session.run(loop, {n: 1})[0].shape, flush=True))
    """ + _BEGINNING + """
    session = tf.Session()
    session.run(start)
    session.run(fed, {n: 1})
    print("end", flush=True)
    """)) == ["end", "last (64, 64)"]


def test_a_process_that_ends_while_tensorflow_alone_waits(script):
    """Nothing of ours runs, so the end of the process does not wait for it."""
    assert lines(script(_BEGINNING + """
    from tremula.tf.runtime.sessions import interrupts
    interrupts._MOST_WAIT = 1e9
    never = tf.queue.FIFOQueue(1, tf.float32).dequeue()
    session = tf.Session()
    session.run(loop, {n: 1})
    thread(lambda: session.run(never), daemon=True)
    while session not in host_calls.running_sessions():
        time.sleep(0.01)
    print("end", flush=True)
    """)) == ["end"]
