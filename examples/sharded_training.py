# Training with one layer on each of two IPUs: gradients are computed where their layers are.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()
tf.set_random_seed(1)  # the same first weights in every run

random = np.random.RandomState(1)
inputs = random.normal(size=[64, 8]).astype(np.float32)
targets = np.sum(inputs, 1, keepdims=True) ** 2 / 8


def step(x, y):
    with ipu.scopes.ipu_shard(0):
        hidden = tf.layers.dense(x, 32, tf.nn.relu)
    with ipu.scopes.ipu_shard(1):
        loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    optimizer = ipu.sharded_optimizer.ShardedOptimizer(tf.train.AdamOptimizer(0.02))
    return loss, optimizer.minimize(loss)


with tf.device("cpu"):
    x = tf.placeholder(tf.float32, inputs.shape)
    y = tf.placeholder(tf.float32, targets.shape)
with ipu.scopes.ipu_scope("/device:IPU:0"):
    train = ipu.ipu_compiler.compile(step, [x, y])

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    # tremula: ignore[feed-without-queue]  so that the example has shards and nothing else
    losses = [session.run(train, {x: inputs, y: targets})[0] for _ in range(100)]
print(f"loss: {losses[0]:.2f} before, {losses[-1]:.2f} after {len(losses)} steps")
print("learned:", losses[-1] < 0.2 * losses[0])
