import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

BIG = [256, 512]


def body(x):
    mask = tf.cast(x > 0, tf.float16)
    bias = (1.0 - mask) * -1e9  #! half-range
    wrong = mask * -1e9  #! half-range
    w = tf.get_variable("w", [8, 8], tf.float16, initializer=tf.zeros_initializer())
    many = tf.reduce_sum(tf.ones(BIG, tf.float16))
    more = tf.reduce_sum(tf.ones([256, 512], tf.float16))  #! half-range
    loss = tf.reduce_mean(tf.matmul(tf.cast(x, tf.float16), w) / (mask + 1e-8))  #! half-epsilon
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)  #! half-loss-scale
    return loss, train, bias, wrong, many, more


with ipu.scopes.ipu_scope("/device:IPU:0"):
    out = ipu.ipu_compiler.compile(body, [tf.zeros([8, 8])])
