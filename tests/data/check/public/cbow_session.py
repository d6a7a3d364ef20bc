"""CBOW text classifier, sessions of TensorFlow 1."""
import argparse
import collections

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def build_vocab(lines, size):
    counter = collections.Counter(w for line in lines for w in line.split())
    return {w: i + 2 for i, (w, _) in enumerate(counter.most_common(size - 2))}


class Classifier(object):
    def __init__(self, vocab, dim, classes, lr):
        self.tokens = tf.placeholder(tf.int64, [None, None], name='tokens')  #! unknown-shape int64
        self.labels = tf.placeholder(tf.int32, [None], name='labels')  #! unknown-shape
        self.keep = tf.placeholder_with_default(1.0, [])
        with tf.variable_scope('embed'):
            table = tf.get_variable('table', [vocab, dim],
                                    initializer=tf.random_uniform_initializer(-.1, .1))
        vectors = tf.nn.embedding_lookup(table, self.tokens)
        mask = tf.to_float(tf.not_equal(self.tokens, 0))
        mean = tf.reduce_sum(vectors * mask[:, :, None], 1) / (
            tf.reduce_sum(mask, 1, keepdims=True) + 1e-6)
        hidden = tf.nn.dropout(tf.layers.dense(mean, 128, tf.nn.relu), keep_prob=self.keep)
        logits = tf.layers.dense(hidden, classes)
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=self.labels, logits=logits))
        self.predicted = tf.argmax(logits, 1, output_type=tf.int32)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(self.predicted, self.labels), tf.float32))
        self.step = tf.Variable(0, trainable=False, name='global_step')
        opt = tf.train.AdamOptimizer(lr)
        grads, variables = zip(*opt.compute_gradients(self.loss))
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.train = opt.apply_gradients(zip(grads, variables), global_step=self.step)  #! global-step
        tf.summary.scalar('loss', self.loss)
        self.summaries = tf.summary.merge_all()


def batches(x, y, size):
    order = np.random.permutation(len(x))
    for begin in range(0, len(x), size):
        rows = order[begin:begin + size]
        yield x[rows], y[rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--train', default='train.txt')
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--batch', type=int, default=128)
    args = parser.parse_args()
    x = np.random.randint(0, 1000, [2000, 40])
    y = np.random.randint(0, 4, 2000)
    model = Classifier(1000, 100, 4, 1e-3)
    saver = tf.train.Saver(max_to_keep=3)
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True  #! option-without-effect
    with tf.Session(config=config) as sess:
        writer = tf.summary.FileWriter('logs', sess.graph)
        sess.run(tf.global_variables_initializer())
        for epoch in range(args.epochs):
            for tokens, labels in batches(x, y, args.batch):
                feed = {model.tokens: tokens, model.labels: labels, model.keep: 0.7}
                _, loss, summary, step = sess.run(
                    [model.train, model.loss, model.summaries, model.step], feed_dict=feed)  #! feed-without-queue
                writer.add_summary(summary, step)
            accuracy = sess.run(model.accuracy, {model.tokens: x[:500], model.labels: y[:500]})
            print('epoch %d loss %.3f accuracy %.3f' % (epoch, loss, accuracy))
            saver.save(sess, 'ckpt/model', global_step=step)


if __name__ == '__main__':
    main()
