"""TensorFlow 2: a training loop of your own, in several instances whose replicas train one model:

    poprun --num-replicas 4 --num-instances 2 python distributed_loop.py

It prints the same numbers for every number of instances.
"""

import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import popdist_strategy

STEPS, BATCH = 32, 8

strategy = popdist_strategy.PopDistStrategy()
popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig()).configure_ipu_system()
replicas, first = popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()

random = np.random.RandomState(1)
inputs = random.randn(STEPS * replicas * BATCH, 4).astype(np.float32)
targets = inputs @ np.array([[1], [-2], [3], [-4]], np.float32)
# Each replica takes batches of its own; a step of all of them is a block of the data.
blocks = np.arange(len(inputs)).reshape([-1, replicas, BATCH])
own = blocks[:, first:first + popdist.getNumLocalReplicas()].reshape(-1)
dataset = tf.data.Dataset.from_tensor_slices((inputs[own], targets[own])).repeat().batch(
    BATCH, drop_remainder=True)

with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))
    moment = tf.Variable(tf.zeros([4, 1]))
    losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    batches = iter(dataset)


def add_up(value):
    """The sum over the replicas of all instances."""
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


@tf.function(jit_compile=True)
def train(batches, steps):
    for _ in tf.range(steps):
        x, y = next(batches)
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reduce_sum((x @ weights - y) ** 2, axis=1),
                                              global_batch_size=BATCH * replicas)
        moment.assign(0.9 * moment + add_up(tape.gradient(loss, weights)))
        weights.assign_sub(0.02 * moment)
        losses.enqueue(add_up(loss))


for epoch in range(3):
    strategy.run(train, args=(batches, STEPS))
    taken = np.reshape(losses.dequeue(), [STEPS, -1])[:, 0]
    print(f"epoch {epoch}: {taken[0]:.8g} {taken[-1]:.8g}")
print("weights:", *(f"{one:.4f}" for one in weights.numpy().ravel()))
