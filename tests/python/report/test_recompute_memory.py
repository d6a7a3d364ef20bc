"""IPUConfig.allow_recompute in a training step without a pipeline: less memory for more cycles, and
no other number."""

import pva

from profiled_programs import largest

PROGRAM = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.allow_recompute = {allow}
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def step(x):
        for layer in range(8):
            x = tf.layers.conv2d(x, 16, 3, padding="same", use_bias=False, name="c%d" % layer,
                                 kernel_initializer=tf.ones_initializer())
            x = tf.layers.batch_normalization(x, training=True, fused=True)
            x = tf.nn.relu(x)
        loss = tf.reduce_mean(x * x)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return tf.identity(loss)

    x = tf.placeholder(tf.float32, [4, 32, 32, 16])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(step, [x])
    values = np.random.RandomState(0).uniform(-1, 1, [4, 32, 32, 16])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        print("losses", [session.run(result, {{x: values}})[0] for _ in range(3)])
"""


def trained(profiled, allow):
    """The losses as printed; bytes that are not always live at the fullest step; cycles."""
    folder, done = profiled(PROGRAM.format(allow=allow))
    report = pva.openReport(str(largest(folder)))
    live = max(step.notAlwaysLiveMemory.bytes for step in report.compilation.livenessProgramSteps)
    losses = [line for line in done.stdout.splitlines() if line.startswith("losses")]
    return losses, live, report.compilation.totals["cycles"]  # runs wait for the host, too


def test_allow_recompute(profiled):
    losses, kept, fewer = trained(profiled, False)
    again_losses, again, more = trained(profiled, True)
    assert losses and losses == again_losses
    activation = 4 * 32 * 32 * 16 * 4  # bytes of a layer's
    assert kept - again >= 2 * activation  # of the layers that are far from their gradients
    assert more > fewer
