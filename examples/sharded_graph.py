# One graph on four IPUs: three shards compute partial sums of squares, the fourth adds them up.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

IPUS = 4

config = ipu.config.IPUConfig()
config.auto_select_ipus = IPUS
config.configure_ipu_system()

with tf.device("cpu"):
    values = tf.placeholder(np.float32, [3, 5], name="values")


def sum_of_squares(table):
    partial = []
    for shard in range(IPUS - 1):
        with ipu.scopes.ipu_shard(shard):
            partial.append(tf.reduce_sum(tf.square(table[shard])))
    with ipu.scopes.ipu_shard(IPUS - 1):
        return tf.add_n(partial)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    [total] = ipu.ipu_compiler.compile(sum_of_squares, [values])

with tf.Session() as session:
    print(session.run(total, {values: np.arange(15).reshape(3, 5)}))
