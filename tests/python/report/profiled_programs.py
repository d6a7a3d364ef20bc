"""Programs whose profiles are looked at, and finding these."""

import pva

PROGRAM = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def network(x):
        with tf.variable_scope("first"):
            x = tf.layers.dense(x, 64, tf.nn.relu)
        with tf.variable_scope("second"):
            return tf.reduce_mean(tf.layers.dense(x, 10))
"""

UNFED = PROGRAM + """
    x = tf.placeholder(tf.float32, [32, 100])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(network, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(6):
            session.run(result, {x: np.ones([32, 100], np.float32)})
"""

# Two programs in turn, the large one twice.
SWITCHING = PROGRAM + """
    x = tf.placeholder(tf.float32, [32, 100])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(network, [x])
        other = ipu.ipu_compiler.compile(lambda x: x * 2.0, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            for tensor in (other, result, result):
                session.run(tensor, {x: np.ones([32, 100], np.float32)})
"""

FED = PROGRAM + """
    data = tf.data.Dataset.from_tensors(np.ones([32, 100], np.float32)).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    def body(x):
        return outfeed.enqueue(network(x))
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(1000, body, [], infeed))
    with tf.Session() as session:
        session.run(infeed.initializer)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(result)
"""


def largest(folder):
    """The directory of the program with the most steps; the others initialise variables."""
    return max(folder.glob("tf_report__*"),
               key=lambda one: len(pva.openReport(str(one)).compilation.programs))
