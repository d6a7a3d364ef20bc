"""The options object of the first releases, and the shards of several IPUs."""
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import ipu_compiler, scopes, sharding, utils
from tensorflow.python.ipu.optimizers import sharded_optimizer

options = utils.create_ipu_config(profiling=True, use_poplar_text_report=True)
options = utils.set_recomputation_options(options, allow_recompute=True)
options = utils.auto_select_ipus(options, 2)
utils.configure_ipu_system(options)


def network(x):
    with scopes.ipu_shard(0):
        h = tf.nn.relu(tf.layers.dense(x, 8))
    with scopes.ipu_shard(1):
        loss = tf.reduce_mean(tf.layers.dense(h, 1))
    optimizer = sharded_optimizer.ShardedOptimizer(tf.train.GradientDescentOptimizer(0.1))
    return loss, optimizer.minimize(loss)


with tf.device("cpu"):
    x = tf.placeholder(tf.float32, [4, 8])
with scopes.ipu_scope("/device:IPU:0"):
    step = ipu_compiler.compile(network, [x])
print(sharding.has_attr, step)
