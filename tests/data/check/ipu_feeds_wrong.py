import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, loops, scopes
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_infeed_queue import IPUInfeedQueue as Infeed

tf.disable_v2_behavior()
data = np.random.rand(100, 8)  #! float64
seen = []
ds = tf.data.Dataset.from_tensor_slices(data).repeat().batch(4, drop_remainder=True)
infeed = Infeed(ds)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def helper(x):
    return tf.image.resize_bicubic(x, [8, 8])  #! unsupported-op


def body(x):
    with tf.variable_scope("v", use_resource=True):
        w = tf.get_variable("w", [8, 1], initializer=tf.glorot_uniform_initializer())  #! random-initialiser
    loss = tf.reduce_mean(helper(tf.matmul(x, w)))
    print("loss is", loss)  #! python-side-effect
    print("building the body", x.shape)
    seen.append(tf.square(loss))  #! python-side-effect
    loss = tf.Print(loss, [loss])  #! host-round-trip
    train = tf.train.AdamOptimizer(0.1).minimize(
        loss, global_step=tf.train.get_or_create_global_step())  #! global-step global-step
    with tf.control_dependencies([train]):
        return outfeed.enqueue(loss)


with scopes.ipu_scope("/device:IPU:0"):
    run = ipu_compiler.compile(lambda: loops.repeat(10, body, infeed_queue=infeed))
config = IPUConfig()
config.auto_select_ipus = 1
config.matmuls.poplar_option = {}  #! unknown-option
config.configure_ipu_system()
with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), infeed.initializer])
    sess.run(run)
