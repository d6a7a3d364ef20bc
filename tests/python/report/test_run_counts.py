"""The profile of a run has the count of its loops, also where an input of the run is that count."""

import contextlib
import sqlite3

import pva

PROGRAM = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
"""

REPEAT = PROGRAM + """
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        n, x = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.float32, [4])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            y = ipu.ipu_compiler.compile(
                lambda x, n: ipu.loops.repeat(n, lambda v: v * 1.5 + 1, [x]), [x, n])
        for count in (3, 3, 10):
            session.run(y, {x: [1, 2, 3, 4], n: count})
"""

RANGES = PROGRAM + """
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        @tf.function(jit_compile=True)
        def nested(x, n, unused):
            def turn(i, x):
                return i + 2, tf.while_loop(
                    lambda j, _: j < n, lambda j, x: (j + 1, x * 1.5 + 1), [0, x])[1]
            return tf.while_loop(lambda i, _: i < n * 2, turn, [1, x])[1], unused
        for count, unused in ((3, 0), (3, 1), (5, 1)):
            strategy.run(nested, [tf.constant([1.0, 2.0]), tf.constant(count), tf.constant(unused)])
"""

KERAS = PROGRAM + """
    strategy = ipu.ipu_strategy.IPUStrategy()
    data = tf.data.Dataset.from_tensor_slices(
        (np.ones([64, 8], np.float32), np.ones([64, 4], np.float32))).batch(2, drop_remainder=True)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=[8])])
        model.compile("sgd", "mse", steps_per_execution=16)
        model.fit(data, verbose=0)
        model.evaluate(data, verbose=0)
        model.predict(data.map(lambda x, y: x), verbose=0)
"""

LOGGED = PROGRAM + """
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        @tf.function(jit_compile=True)
        def loop(x, n):
            return tf.while_loop(
                lambda i, _: i < n, lambda i, x: (i + 1, x * 1.5 + 1), [0, x])[1]
        for count in (2, 4, 6):
            strategy.run(loop, [tf.constant([1.0, 2.0]), tf.constant(count)])
"""


def _reports(folder):
    return [pva.openReport(str(one)) for one in sorted(folder.glob("tf_report__*"))]


def _cycles(report):
    """Of each recorded run, without waiting and loading: the sum of its computing steps."""
    return [sum(step.cycles for step in run.steps
                if step.program.type.name not in ("StreamCopyBegin", "StreamCopyMid"))
            for run in report.execution.runs]


def _counts(report):
    """The counts of the profile's loops, the outer ones first."""
    return [program.repeatCount for program in report.compilation.programs
            if program.type.name in ("Repeat", "RepeatWhile")]


def test_number_of_repeat(profiled):
    folder, _ = profiled(REPEAT, {"autoReport.executionProfileProgramRunCount": "3"})
    (report,) = _reports(folder)
    first, same, more = _cycles(report)
    assert first == same < more
    assert _counts(report) == [3]
    turns = [step.iterations for step in report.execution.runs[2].steps
             if step.program.type.name == "RepeatWhile"]
    assert 8 in turns  # the first two are written one by one


def test_ranges_of_arguments(profiled):
    folder, _ = profiled(RANGES, {"autoReport.executionProfileProgramRunCount": "3"})
    (report,) = _reports(folder)
    first, same, more = _cycles(report)
    assert first == same < more
    assert _counts(report) == [3, 3]


def test_steps_of_keras(profiled):
    folder, _ = profiled(KERAS)
    reports = _reports(folder)
    assert [_counts(report) for report in reports] == [[16]] * 3  # fit, evaluate, predict
    for report in reports:
        first, second = _cycles(report)  # the number of the step counts no loop
        assert first == second
    for one in folder.glob("tf_report__*/profile.pop"):
        with contextlib.closing(sqlite3.connect(one)) as database:
            assert database.execute("SELECT count(DISTINCT first_row) FROM runs").fetchone() == (1,)


def test_logged_cycles(profiled):
    _, done = profiled(LOGGED, TF_POPLAR_FLAGS="--log_cycle_count=0")
    counts = [int(line.rpartition(" ")[2]) for line in done.stderr.splitlines()
              if "Cycle count: " in line]
    assert len(counts) == 3
    assert counts[1] - counts[0] == counts[2] - counts[1] > 0
