# "If your code contains operations that are not yet supported".
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()


def spectrum(x):
    return tf.reduce_mean(tf.image.resize_area(x, [8, 8]))  #! unsupported-op


with tf.device("cpu"):
    x = tf.placeholder(np.float32, [1, 16, 16, 3])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = ipu.ipu_compiler.compile(spectrum, [x])
