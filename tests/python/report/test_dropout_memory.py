"""The IPU's dropout keeps a seed between the two passes, TensorFlow's keeps a mask: what the plan
says of that."""

import pva

from profiled_programs import largest

LAYERS, WIDTH, BATCH = 4, 64, 2048

PROGRAM = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def step(x):
        for layer in range({layers}):
            x = tf.layers.dense(x, {width}, tf.nn.relu, use_bias=False, name="d%d" % layer)
            x = {dropout}(x, rate=0.5)
        loss = tf.reduce_mean(x * x)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return tf.identity(loss)

    x = tf.placeholder(tf.float32, [{batch}, {width}])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(step, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(result, {{x: np.ones([{batch}, {width}], np.float32)}})
"""


def most_live(profiled, dropout):
    """Bytes at the fullest step of a training step, what is always there left out."""
    text = PROGRAM.format(layers=LAYERS, width=WIDTH, batch=BATCH, dropout=dropout)
    folder = profiled(text)[0]
    steps = pva.openReport(str(largest(folder))).compilation.livenessProgramSteps
    return max(step.notAlwaysLiveMemory.bytes for step in steps)


def test_training_with_the_ipu_s_dropout_needs_less(profiled):
    ours = most_live(profiled, "ipu.rand_ops.dropout")
    tensorflows = most_live(profiled, "tf.nn.dropout")
    masks = (LAYERS - 1) * WIDTH * BATCH  # a byte an element, of the layers before the fullest step
    # The fullest step of TensorFlow's form holds more than the masks: a turned operand, too.
    assert tensorflows - ours > 0.9 * masks
