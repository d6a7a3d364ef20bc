# "A list of supported operations (depending on the related data types)".
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()


def mean(x):
    return tf.reduce_mean(tf.cast(x, "float64"))  #! float64


with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = ipu.ipu_compiler.compile(mean, [tf.zeros([8])])
