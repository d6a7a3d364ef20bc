"""A small BERT that learns to fill in masked words, in several instances, with Horovod's names for
what the processes do together:

    poprun --num-replicas 4 --num-instances 2 python distributed_bert.py

It prints the same numbers for every number of instances.
"""

import numpy as np
import popdist.tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import distributed as hvd
from tensorflow.python.ipu.distributed import popdist_strategy

tf.disable_v2_behavior()
WORDS, LENGTH, WIDTH, HEADS, LAYERS, MASK = 24, 8, 32, 4, 2, 0
STEPS, LAUNCHES, BATCH = 10, 4, 4

hvd.init()
strategy = popdist_strategy.PopDistStrategy()
config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig(), ipus_per_replica=1)
config.configure_ipu_system()
ipu.utils.reset_ipu_seed(5)

# Sentences count upwards from some word. Of each, the words at two places are masked.
local = popdist.getNumLocalReplicas()
replicas = hvd.size() * local
random = np.random.RandomState(1)
count = STEPS * LAUNCHES * replicas * BATCH
words = (random.randint(1, WORDS, size=[count, 1]) + np.arange(LENGTH)) % (WORDS - 1) + 1
places = np.stack([random.permutation(LENGTH)[:2] for _ in range(count)])
masked = words.copy()
np.put_along_axis(masked, places, MASK, axis=1)
data = [one.astype(np.int32).reshape([-1, hvd.size(), local * BATCH, one.shape[1]])[:, hvd.rank()]
        .reshape([-1, one.shape[1]])
        for one in (masked, places, np.take_along_axis(words, places, axis=1))]
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
    tf.data.Dataset.from_tensor_slices(tuple(data)).batch(BATCH, drop_remainder=True))
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
optimizer = tf.train.AdamOptimizer(0.01)


def variable(name, shape):
    """Each instance draws its own; the strategy takes those of instance 0."""
    start = np.random.RandomState(hvd.rank() + sum(map(ord, name))).normal(size=shape) * 0.1
    return tf.get_variable(name, initializer=start.astype(np.float32))


def dense(x, name, width):
    return tf.matmul(x, variable(name, [x.shape[-1], width]))


def attend(x):
    """From every word of a sentence to every other."""
    def split(name):
        parts = tf.reshape(dense(x, name, WIDTH), [BATCH, LENGTH, HEADS, WIDTH // HEADS])
        return tf.transpose(parts, [0, 2, 1, 3])
    scores = tf.matmul(split("query"), split("key"), transpose_b=True)
    mixed = tf.matmul(tf.nn.softmax(scores / (WIDTH // HEADS) ** 0.5), split("value"))
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [BATCH * LENGTH, WIDTH])
    return dense(mixed, "out", WIDTH)


def network(sentences):
    table = variable("words", [WORDS, WIDTH])
    x = ipu.embedding_ops.embedding_lookup(table, tf.reshape(sentences, [-1]))
    x += tf.tile(variable("places", [LENGTH, WIDTH]), [BATCH, 1])
    for layer in range(LAYERS):
        with tf.variable_scope(f"layer{layer}"):
            x = ipu.normalization_ops.layer_norm(x + attend(x), scope="first")
            wide = ipu.nn_ops.gelu(dense(x, "wide", 4 * WIDTH))
            wide = ipu.rand_ops.dropout(wide, rate=0.1)
            x = ipu.normalization_ops.layer_norm(x + dense(wide, "narrow", WIDTH), scope="last")
    return x, table


def step(sentences, at, wanted):
    x, table = network(sentences)
    rows = tf.reshape(at + LENGTH * tf.range(BATCH)[:, None], [-1])
    logits = tf.matmul(tf.gather(x, rows), table, transpose_b=True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(wanted, [-1]), logits)
    training = optimizer.minimize(tf.reduce_mean(losses) / replicas)
    return training, outfeed.enqueue(tf.reduce_mean(losses))


def launch():
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, step, [], infeed))


with strategy.scope():
    train = strategy.run(launch)
losses = outfeed.dequeue()
with tf.device("cpu"):
    of_all = hvd.allreduce(tf.reduce_mean(losses))

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    for number in range(LAUNCHES):
        session.run(train)
        print(f"launch {number}: {session.run(of_all):.5f}")
    if hvd.rank() == 0:
        tf.train.Saver().save(session, "bert", write_meta_graph=False)
