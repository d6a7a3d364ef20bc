# A classifier as tutorials of TensorFlow 1 have it: placeholders, a session, feed_dict.
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def load():
    rng = np.random.RandomState(0)
    return rng.rand(1000, 784).astype(np.float32), rng.randint(0, 10, 1000)


x = tf.placeholder(tf.float32, [None, 784])  #! unknown-shape
y = tf.placeholder(tf.int32, [None])  #! unknown-shape
keep_prob = tf.placeholder(tf.float32)
w1 = tf.Variable(tf.truncated_normal([784, 100], stddev=0.1))
b1 = tf.Variable(tf.zeros([100]))
hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(x, w1) + b1), keep_prob)
w2 = tf.Variable(tf.truncated_normal([100, 10], stddev=0.1))
logits = tf.matmul(hidden, w2)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
train_op = tf.train.AdamOptimizer(1e-3, epsilon=1e-8).minimize(loss)
correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

images, labels = load()
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for epoch in range(3):
        for i in range(0, len(images), 100):
            batch_x, batch_y = images[i:i + 100], labels[i:i + 100]
            sess.run(train_op, feed_dict={x: batch_x, y: batch_y, keep_prob: 0.5})  #! feed-without-queue
        acc = sess.run(accuracy, feed_dict={x: images, y: labels, keep_prob: 1.0})
        print("epoch", epoch, "accuracy", acc)
