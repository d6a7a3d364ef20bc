import tensorflow.compat.v1 as tf


def tower(x, reuse):
    with tf.variable_scope("net", reuse=reuse):
        return tf.layers.dense(x, 10)


def average(gradients):
    result = []
    for pairs in zip(*gradients):
        stacked = tf.stack([g for g, _ in pairs])
        result.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    return result


optimizer = tf.train.GradientDescentOptimizer(0.1)
towers = []
x = tf.ones([8, 4])
for i in range(2):
    with tf.device("/gpu:%d" % i):  #! gpu-only
        towers.append(optimizer.compute_gradients(tf.reduce_sum(tower(x, i > 0))))
with tf.device("/cpu:0"):
    train_op = optimizer.apply_gradients(average(towers))
with tf.device("/device:GPU:0"):  #! gpu-only
    more = tf.zeros([1])
