"""Forked processes: they work or say what is wrong, and never wait for threads that they lack."""

import textwrap

_BEGINNING = """
    import os, sys
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()

    def configure():
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()

    def in_child(act):
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                act()
            except tf.errors.OpError as error:
                print(type(error).__name__, "forked" in str(error))
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print("failed")

    def triple():
        x = tf.placeholder(tf.float32, [])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            y, = ipu.ipu_compiler.compile(lambda x: x * 3, [x])
        return x, y

    def new_session():
        configure()
        with tf.Graph().as_default():
            x, y = triple()
            with tf.Session() as session:
                print(session.run(y, {x: 2}))
"""


def outputs(script, text):
    process = script(textwrap.dedent(_BEGINNING) + textwrap.dedent(text))
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout.splitlines()


def test_before_the_first_session(script):
    assert outputs(script, """
    in_child(new_session)
    new_session()
    """) == ["6.0", "6.0"]


def test_after_sessions(script):
    """Also with an infeed, whose runs have a thread of ours, and from within a run."""
    assert outputs(script, """
    from tremula.tf.runtime.host import host_calls
    configure()
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.range(10 ** 9).map(lambda k: tf.cast(k, tf.float32)))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    x, y = triple()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        fed = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, lambda x: out.enqueue(x), [],
                                                                feed))
    start, results = feed.initializer, out.dequeue()
    session = tf.Session()
    session.run(start)
    session.run(fed)
    print(session.run(y, {x: 1}), session.run(results).tolist())
    in_child(lambda: session.run(fed))
    in_child(lambda: session.run(y, {x: 1}))
    in_child(lambda: session.make_callable(y, [x])(1))
    in_child(new_session)

    def fork_within(x):
        in_child(lambda: print("running", len(host_calls.running_sessions())))
        return x
    inside = tf.py_func(fork_within, [tf.constant(1)], tf.int32)
    session.run(inside)
    session.run(fed)
    print(session.run(y, {x: 1}), session.run(results).tolist())
    """) == ["3.0 [0.0, 1.0, 2.0]"] + ["FailedPreconditionError True"] * 4 + [
        "running 0", "3.0 [3.0, 4.0, 5.0]"]


def test_eager_operations(script):
    """One by one, on values of the parent's, and in a function. The CPU works."""
    process = script("""
    import os, sys
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def in_child(act):
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                print(act())
            except tf.errors.FailedPreconditionError as error:
                print("forked" in str(error) and "spawn" in str(error))
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)

    def on_ipu(act):
        def placed():
            with tf.device("/device:IPU:0"):
                return act()
        return placed

    @tf.function
    def function(x):
        return x * 2. + 1.

    with tf.device("/device:CPU:0"):
        base = tf.constant([1., 2.])
    in_child(on_ipu(lambda: tf.ones([2])))  # TensorFlow has its devices, but no IPU has run
    value = on_ipu(lambda: tf.ones([2]) * 3.)()
    print(float(value[0]))
    for act in (lambda: tf.ones([2]), lambda: tf.constant(np.ones([2], np.float32)),
                lambda: tf.Variable(1.), lambda: tf.concat([base, base], 0),
                lambda: function(base)):
        in_child(on_ipu(act))
    for act in (lambda: value + 1., lambda: value.numpy(), lambda: float(value[0]),
                lambda: tf.identity(value), lambda: value.cpu(), lambda: tf.stack([value, base])):
        in_child(act)
    in_child(lambda: (base * 2.).numpy())
    in_child(lambda: tf.constant([1, 2]).numpy())
    print(float((value + 1.)[0]))
    """)
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.splitlines() == ["True", "3.0"] + ["True"] * 11 + [
        "[2. 4.]", "[1 2]", "4.0"]
