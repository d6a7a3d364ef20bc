# "If no estimator is used, it is recommended to use feeds".
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
rng = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [16, 4])
w = tf.get_variable("w", [4, 1], use_resource=True)
train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.matmul(x, w)))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(1000):
        feed = {x: rng.rand(16, 4)}
        sess.run(train_op, feed)  #! feed-without-queue
