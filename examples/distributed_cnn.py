"""TensorFlow 1: a convolutional network that the replicas of several instances train:

    poprun --num-replicas 4 --num-instances 2 python distributed_cnn.py

It prints the same numbers for every number of instances, and each instance writes the checkpoint
instance_<its number>, all with the same values.
"""

import numpy as np
import popdist
import popdist.tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import popdist_strategy

tf.disable_v2_behavior()
STEPS, LAUNCHES, BATCH = 5, 4, 4

strategy = popdist_strategy.PopDistStrategy()
config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig(), ipus_per_replica=1)
replicas, first = popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()
config.norms.experimental.distributed_batch_norm_replica_group_size = replicas
config.configure_ipu_system()
ipu.utils.reset_ipu_seed(7)

# Pictures with a bright half: which half is the label. A step of all replicas is a block.
random = np.random.RandomState(1)
count = STEPS * LAUNCHES * replicas * BATCH
labels = random.randint(0, 2, size=count).astype(np.int32)
pictures = random.normal(size=[count, 8, 8, 1]).astype(np.float32)
pictures[labels == 1, :4] += 1
blocks = np.arange(count).reshape([-1, replicas, BATCH])
own = blocks[:, first:first + popdist.getNumLocalReplicas()].reshape(-1)
dataset = tf.data.Dataset.from_tensor_slices((pictures[own], labels[own])).batch(
    BATCH, drop_remainder=True)

infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
optimizer = tf.train.MomentumOptimizer(0.05, 0.9)


def start(*shape):
    return tf.constant_initializer(random.normal(size=shape) / np.sqrt(np.prod(shape[:-1])))


def network(x):
    x = tf.layers.conv2d(x, 8, 3, padding="same", name="first",
                         kernel_initializer=start(3, 3, 1, 8))
    x = tf.nn.relu(tf.layers.batch_normalization(x, training=True, name="norm"))
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = ipu.rand_ops.dropout(tf.layers.flatten(x), rate=0.2)
    return tf.layers.dense(x, 2, name="last", kernel_initializer=start(128, 2))


def step(x, y):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=network(x))
    loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH * replicas)
    training = optimizer.minimize(loss)
    of_all = tf.distribute.get_replica_context().merge_call(
        lambda one, value: one.reduce(tf.distribute.ReduceOp.SUM, value, axis=None), args=(loss,))
    return training, outfeed.enqueue(of_all)


def launch():
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, step, [], infeed))


with strategy.scope():
    train = strategy.run(launch)
losses = outfeed.dequeue()
saver = tf.train.Saver(tf.global_variables())

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    for number in range(LAUNCHES):
        session.run(train)
        print(f"launch {number}:", *(f"{one:.8g}" for one in np.ravel(
            session.run(losses))[::popdist.getNumLocalReplicas()]))
    saver.save(session, f"instance_{popdist.getInstanceIndex()}", write_meta_graph=False)
