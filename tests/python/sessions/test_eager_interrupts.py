"""Ctrl-C while a tf.function or an op runs eagerly on an IPU: KeyboardInterrupt, and what runs next
is as before."""

_EAGER = """
    import os, signal, threading
    # A shell that starts a job in the background makes it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = tf.ones([8, 8])
    HOURS = 2000000000

    @tf.function
    def loop(n, x):  # TensorFlow goes around: a program for each turn
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.matmul(x, x) * 0.1),
                             [tf.constant(0), x])[1]

    @tf.function
    def compiled(n, x):  # the program does
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(
                lambda n, x: ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.1, [x]), [n, x])[0]

    @tf.function(jit_compile=True)
    def whole(n, x):  # so does this one
        return ipu.loops.repeat(n, lambda x: tf.matmul(x, x) * 0.1, [x])

    def ops(n, x):
        for _ in range(n):
            x = tf.matmul(x, x) * 0.1
        return x

    def run(function, n):
        with tf.device("/device:IPU:0"):
            return float(function(n if function is ops else tf.constant(n), x)[0, 0])

    for function in loop, compiled, whole, ops:
        value = run(function, 2)
        for _ in range(2):
            timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
            try:  # the signal may come before the run on a machine that is busy
                timer.start()
                run(function, HOURS)
            except KeyboardInterrupt:
                print("caught")
            timer.join()
        print(run(function, 2) == value)
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_functions_and_ops(script):
    process = script(_EAGER)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.split() == ["caught", "caught", "True"] * 4 + ["True"]


_WAITING = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    blocked, never = threading.Event(), threading.Event()

    def elements():
        for k in range(6):
            yield np.float32(k)
        blocked.set()
        never.wait()

    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_generator(
        elements, output_signature=tf.TensorSpec([], tf.float32)))

    @tf.function
    def sum_of_two(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(
                lambda x: ipu.loops.repeat(2, lambda x, k: x + k, [x], feed), [x])[0]

    @tf.function
    def step(x):  # what waits is in a function that another one calls
        return sum_of_two(x) + 0.

    def interrupt():
        blocked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    feed.initializer
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with tf.device("/device:CPU:0"):
            for _ in range(1000):
                step(tf.constant(0.))
    except KeyboardInterrupt:
        print("caught")
    thread.join()
    with tf.device("/device:IPU:0"):
        print(float(tf.reduce_sum(tf.ones([4]) * 2. + 1.)))
    sys.stdout.flush()
    os._exit(0)  # the generator waits for ever
"""


def test_a_function_that_waits_for_data(script):
    """Its dataset never goes on, and nothing but the data can end TensorFlow's call."""
    process = script(_WAITING)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.split() == ["caught", "12.0"]
