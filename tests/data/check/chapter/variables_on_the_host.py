import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
w = tf.Variable(tf.zeros([8]))  #! ref-variable
unused = tf.Variable(tf.zeros([8]))


def body(x):
    return x * w


with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = ipu.ipu_compiler.compile(body, [tf.zeros([8])])
