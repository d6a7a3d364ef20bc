# The same program on four IPUs, each with its own part of the data; gradients are averaged.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

REPLICAS, BATCH, STEPS = 4, 8, 50

random = np.random.RandomState(1)
inputs = random.normal(size=[640, 3]).astype(np.float32)
targets = inputs @ np.array([[1.0], [-2.0], [0.5]], np.float32)
dataset = tf.data.Dataset.from_tensor_slices((inputs, targets))
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.repeat().batch(BATCH, drop_remainder=True))
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def step(x, y):
    with tf.variable_scope("line", use_resource=True):
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
        tf.train.GradientDescentOptimizer(0.1))
    with tf.control_dependencies([optimizer.minimize(loss)]):
        return outfeed.enqueue(loss)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, step, infeed_queue=infeed))

config = ipu.config.IPUConfig()
config.auto_select_ipus = REPLICAS  # one program for one IPU: as many replicas as IPUs
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()
losses = outfeed.dequeue()

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    session.run(run)
    taken = session.run(losses)
    weights = session.run(tf.trainable_variables()[0]).ravel()
print("losses of", taken.shape[0], "steps on", taken.shape[1], "replicas")
print("weights:", np.round(weights, 2) + 0.0)
