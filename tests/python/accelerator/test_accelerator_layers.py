"""Norms, recurrent layers and CTC are plain HLO for an accelerator: forwards, gradients and
inference stay there as a whole."""

import pytest

from test_accelerator import plugin, run

# Prints, for inputs that a seed makes, the sums of what `compute` returns and of its gradients.
START = """
    import numpy as np
    import tremula._finder
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    random = np.random.default_rng(0)

    def given(*shape):
        return tf.constant((random.normal(size=shape) * 0.3).astype(np.float32))

    def show(compute):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        x = tf.placeholder(tf.float32, SHAPE)
        variables = []

        def model(x):
            results = compute(x)
            loss = tf.add_n([tf.reduce_sum(one * given(*one.shape)) for one in results])
            variables.extend(tf.trainable_variables())
            return [*results, *tf.gradients(loss, [x, *variables])]

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            results = ipu.ipu_compiler.compile(model, [x])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            feed = (random.normal(size=SHAPE)).astype(np.float32)
            for one in session.run(results, {x: feed}):
                one = np.asarray(one, np.float64)
                print(one.shape, f"{np.abs(one).sum():.6e} {(one * one).sum():.6e}")
"""
NORMS = """
    SHAPE = (8, 12, 16)
    def compute(x):
        g = ipu.ops.normalization_ops
        training = [g.group_norm(x, groups=4, training=True), g.layer_norm(x, training=True),
                    g.instance_norm(x, training=True)]
        still = g.group_norm(x, groups=4, training=False, scope="still")
        image = tf.reshape(x, [8, 4, 3, 16])
        batch = tf.layers.batch_normalization(image, training=True)
        return [*training, still, tf.reshape(batch, [8, 12, 16])]
    show(compute)
"""
RECURRENT = """
    SHAPE = (7, 4, 16)
    def compute(x):
        results = []
        lengths = tf.constant([7, 3, 5, 1])
        for layer, states in ((ipu.ops.rnn_ops.PopnnLSTM, 2), (ipu.ops.rnn_ops.PopnnGRU, 1)):
            made = layer(24, weights_initializer=tf.constant_initializer(
                np.sin(np.arange(40 * 96)).reshape(40, 96)[:, :24 * (2 + states)] * 0.2),
                name=layer.__name__)
            results.append(made(x, training=True)[0])
        dynamic = ipu.ops.rnn_ops.PopnnDynamicLSTM(24, weights_initializer=tf.constant_initializer(
            np.sin(np.arange(40 * 96)).reshape(40, 96) * 0.2), name="dynamic")
        results.append(dynamic(x, lengths, training=True)[0])
        return results
    show(compute)
"""
CTC = """
    SHAPE = (9, 4, 6)
    def compute(x):
        labels = tf.constant([[1, 2, 2], [3, 4, 5], [5, 1, 1], [2, 2, 2]], tf.int32)
        return [ipu.ops.nn_ops.ctc_loss_v2(
            labels, tf.nn.log_softmax(x), tf.constant([3, 2, 3, 1]), tf.constant([9, 8, 7, 9]),
            blank_index=0)]
    show(compute)
"""


@pytest.mark.parametrize("name, text", [("norms", NORMS), ("recurrent", RECURRENT), ("ctc", CTC)])
def test_as_on_the_cpu(name, text):
    """To some units of the fifth digit, and none of the program's steps stay on the CPU."""
    program, lines = START.replace("\n    ", "\n") + text.replace("\n    ", "\n"), []
    for accelerator in ("", plugin()):
        done = run(program, accelerator, TREMULA_ACCELERATOR_LEAST="0", POPLAR_LOG_LEVEL="INFO")
        assert done.returncode == 0, done.stderr[-3000:]
        lines.append([line.rsplit(")", 1) for line in done.stdout.splitlines() if ")" in line])
    assert " run on cpu:0" in done.stderr and " stay on the CPU" not in done.stderr
    assert len(lines[0]) >= 2 and [one for one, _ in lines[0]] == [one for one, _ in lines[1]]
    for (shape, cpu), (_, there) in zip(*lines):
        numbers = [[float(one) for one in text.split()] for text in (cpu, there)]
        assert numbers[1] == pytest.approx(numbers[0], rel=2e-5, abs=1e-5), (name, shape)
