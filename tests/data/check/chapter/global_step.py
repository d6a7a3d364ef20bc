import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
with tf.device("cpu"):
    step = tf.train.get_or_create_global_step()


def body(x):
    w = tf.get_variable("w", [8], initializer=tf.zeros_initializer())
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(tf.reduce_sum(x * w), global_step=step)  #! global-step


with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = ipu.ipu_compiler.compile(body, [tf.zeros([8])])
