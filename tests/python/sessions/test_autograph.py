"""AutoGraph, with which a tf.function rewrites what it traces: the program's functions that we are
given, and nothing of ours (which would take ten seconds)."""

import textwrap

_PROGRAM = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    from tensorflow.python.autograph.impl import conversion

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    ours = [ipu.ipu_compiler.compile, ipu.loops.repeat, ipu.pipelining_ops.pipeline,
            ipu.ipu_infeed_queue.IPUInfeedQueue]
    print(all(conversion.is_allowlisted(one) for one in ours))

    def double_if_small(x):
        if x < 10.:
            x = x * 2.
        return x

    def add_up(x, k):
        for i in tf.range(3):
            x = x + k
        return double_if_small(x)

    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.range(100).map(lambda k: tf.cast(k, tf.float32)))

    def computation(x):
        x = ipu.loops.repeat(2, add_up, [x], feed)
        x = ipu.loops.while_loop(lambda x: x < 100., lambda x: [double_if_small(x) + 3.], [x])
        if x > 50.:
            x = -x
        return x

    @tf.function
    def step(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(computation, [x])[0]

    feed.initializer
    with tf.device("/device:CPU:0"):
        x = tf.constant(1.)
    print(float(step(x)))

    expected = 1.
    for k in range(2):
        expected += 3 * k
        expected *= 2 if expected < 10 else 1
    while expected < 100:
        expected = expected * (2 if expected < 10 else 1) + 3
    print(-expected)

    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function
    def pipelined(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            ipu.ipu_compiler.compile(lambda x: ipu.pipelining_ops.pipeline(
                [double_if_small, lambda x: double_if_small(x) + 1.], 2, inputs=[x],
                outfeed_queue=outfeed, device_mapping=[0, 0]), [x])

    pipelined(x)
    print(outfeed.dequeue().numpy().tolist())

    @tf.function(autograph=False)
    def plain(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(double_if_small, [x])[0]

    try:
        plain(x)
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_program_s_functions_are_rewritten_and_ours_are_not(script, tmp_path):
    path = tmp_path / "program.py"  # AutoGraph wants to read the source
    path.write_text(textwrap.dedent(_PROGRAM))
    process = script(f"import runpy; runpy.run_path({str(path)!r})")
    assert process.returncode == 0, process.stderr[-3000:]
    lines = process.stdout.splitlines()
    assert lines[0] == "True"
    assert lines[1] == lines[2]
    assert lines[3] == "[5.0, 5.0]"
    assert lines[4] == "OperatorNotAllowedInGraphError"
