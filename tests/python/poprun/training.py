"""A training whose numbers depend on everything that instances share: batch norm over all replicas,
dropout, momentum, losses by replica. Arguments: a file for the results; "one", "several" or
"combined", which has one all-reduce for the gradients. Prints how many messages the runs after the
first have sent."""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

from tremula import group

tf.disable_v2_behavior()
REPLICAS, BATCH, STEPS, RUNS = 4, 4, 5, 4


def place(several):
    """Number and count of the instances, as plain mpirun tells them."""
    if not several:
        return 0, 1
    import os
    return int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


def main():
    index, count = place(sys.argv[2] != "one")
    here = REPLICAS // count
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = here
    config.norms.experimental.distributed_batch_norm_replica_group_size = REPLICAS
    if count > 1:
        config.experimental.multi_replica_distribution.process_count = count
        config.experimental.multi_replica_distribution.process_index = index
    if sys.argv[2] == "combined":
        config.optimizations.maximum_cross_replica_sum_buffer_size = 10 ** 6
    config.configure_ipu_system()
    assert ipu.utils.get_num_of_ipus_in_device("/device:IPU:0") == REPLICAS
    ipu.utils.reset_ipu_seed(7)

    random = np.random.RandomState(3)
    features = random.normal(size=[STEPS * RUNS, REPLICAS, BATCH, 6, 6, 3]).astype(np.float32)
    labels = random.randint(0, 3, size=[STEPS * RUNS, REPLICAS, BATCH]).astype(np.int32)
    own = slice(index * here, (index + 1) * here)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(
        (features[:, own].reshape(-1, BATCH, 6, 6, 3), labels[:, own].reshape(-1, BATCH))))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
        tf.train.MomentumOptimizer(0.1, 0.9))

    def initializer(seed):
        return lambda shape, dtype, partition_info=None: tf.constant(
            np.random.RandomState(seed).normal(size=shape) / 4, dtype)

    def body(x, y):
        value = tf.layers.conv2d(x, 8, 3, padding="same", kernel_initializer=initializer(1))
        value = tf.layers.batch_normalization(value, training=True)
        value = ipu.rand_ops.dropout(tf.nn.relu(value), rate=0.3)
        logits = tf.layers.dense(tf.reshape(value, [BATCH, -1]), 3,
                                 kernel_initializer=initializer(2))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=logits))
        factor = ipu.replication_ops.replication_factor()
        sent = outfeed.enqueue([loss, ipu.replication_ops.replication_index(), factor])
        return [optimizer.minimize(loss), sent]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, body, [], infeed))
    dequeued = outfeed.dequeue()
    losses = []
    with tf.Session() as session:
        session.run([infeed.initializer, tf.global_variables_initializer()])
        for turn in range(RUNS):
            if turn == 1:  # the program has been compiled
                before = group.traffic().messages_sent
            session.run(run)
            loss, number, factor = session.run(dequeued)
            losses.append(loss.reshape(STEPS, here))
            assert (number.reshape(STEPS, here) == np.arange(REPLICAS)[own]).all(), number
            assert (factor == REPLICAS).all(), factor
        print(group.traffic().messages_sent - before, "messages")
        variables = session.run({one.op.name: one for one in tf.global_variables()})
    np.savez(sys.argv[1] % index, losses=np.concatenate(losses),
             **{name.replace("/", "."): value for name, value in variables.items()})


main()
