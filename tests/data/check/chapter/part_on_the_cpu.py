# "The respective part has to be processed on the CPU, which is achieved by scoping": clean.
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()


def spectrum(x):
    with ipu.scopes.outside_compilation_scope():
        small = tf.image.resize_area(x, [8, 8])
    return tf.reduce_mean(small)


with tf.device("cpu"):
    x = tf.placeholder(np.float32, [1, 16, 16, 3])
    smaller = tf.image.resize_area(x, [8, 8])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    y = ipu.ipu_compiler.compile(spectrum, [x])
