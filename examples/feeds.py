# Training on the device: a loop that reads from an infeed and writes its losses to an outfeed.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

STEPS, BATCH = 20, 8
SLOPE, OFFSET = 1.5, -0.5

points = np.linspace(-1, 1, 160, dtype=np.float32).reshape(-1, 1)
np.random.RandomState(1).shuffle(points)
dataset = tf.data.Dataset.from_tensor_slices((points, SLOPE * points + OFFSET))
dataset = dataset.repeat().batch(BATCH, drop_remainder=True)

infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def step(x, y):
    with tf.variable_scope("line", use_resource=True):
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        offset = tf.get_variable("offset", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(slope * x + offset - y))
    update = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.control_dependencies([update]):
        return outfeed.enqueue(loss)


def train():
    return ipu.loops.repeat(STEPS, step, infeed_queue=infeed)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(train, inputs=[])

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()
losses = outfeed.dequeue()

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    for epoch in range(5):
        session.run(run)
        taken = session.run(losses)
        print(f"epoch {epoch}: {len(taken)} losses, the last {taken[-1]:.1e}")
    slope, offset = session.run([v for v in tf.global_variables() if v.op.name.startswith("line/")])
print(f"line: {slope:.2f} x {offset:+.2f}")
