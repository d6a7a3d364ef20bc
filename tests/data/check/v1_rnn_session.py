"""A recurrent network in a session, with a dataset that parses records by functions of its own."""
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

UNITS = 128


def label_of(record):
    return tf.cast(tf.strings.to_number(record, tf.float64), tf.int64)


def parse(record):
    return tf.strings.length(record), label_of(record)


def model(x, classes):
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(UNITS) for _ in range(2)])
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    weights = tf.get_variable("weights", [UNITS, classes], dtype=tf.float64)  #! float64
    return tf.matmul(outputs[:, -1], tf.cast(weights, tf.float32))


def main():
    lengths = tf.data.Dataset.from_tensors("12").map(parse)
    x = tf.placeholder(tf.float32, [32, 28, 28])
    y = tf.placeholder(tf.int32, [32])
    with tf.device("/cpu:0"):
        seen = tf.Variable(0, dtype=tf.int64)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=model(x, 10)))
    best = tf.cast(tf.argmax(loss, 0), tf.int64)  #! int64
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)  #! global-step
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(100):
            images = np.random.rand(32, 28, 28).astype(np.float32)
            session.run([train, best], {x: images, y: [0] * 32})  #! feed-without-queue
        print(session.run([seen, tf.data.make_one_shot_iterator(lengths).get_next()]))


main()
