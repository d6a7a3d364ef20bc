# -*- coding: utf-8 -*-
import collections, math, random
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()

corpus = ("the quick brown fox jumps over the lazy dog " * 400).split()
vocabulary_size = 9
data_index = 0

def build_dataset(words):
    count = collections.Counter(words).most_common(vocabulary_size - 1)
    dictionary = {'UNK': 0}
    for w, _ in count:
        dictionary[w] = len(dictionary)
    return [dictionary.get(w, 0) for w in words], dictionary

data, dictionary = build_dataset(corpus)

def generate_batch(batch_size, num_skips, skip_window):
    global data_index
    batch = np.ndarray(shape=(batch_size), dtype=np.int32)
    labels = np.ndarray(shape=(batch_size, 1), dtype=np.int32)
    span = 2 * skip_window + 1
    buf = collections.deque(maxlen=span)
    for _ in range(span):
        buf.append(data[data_index]); data_index = (data_index + 1) % len(data)
    for i in range(batch_size // num_skips):
        ctx = [w for w in range(span) if w != skip_window]
        for j, c in enumerate(random.sample(ctx, num_skips)):
            batch[i * num_skips + j] = buf[skip_window]
            labels[i * num_skips + j, 0] = buf[c]
        buf.append(data[data_index]); data_index = (data_index + 1) % len(data)
    return batch, labels

batch_size, embedding_size, num_sampled = 128, 128, 4
valid_examples = np.array([1, 2, 3, 4])

graph = tf.Graph()
with graph.as_default():
    train_inputs = tf1.placeholder(tf.int32, shape=[batch_size])
    train_labels = tf1.placeholder(tf.int32, shape=[batch_size, 1])
    valid_dataset = tf.constant(valid_examples, dtype=tf.int32)
    with tf.device('/cpu:0'):
        embeddings = tf.Variable(tf.random.uniform([vocabulary_size, embedding_size], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        nce_weights = tf.Variable(tf.random.truncated_normal(
            [vocabulary_size, embedding_size], stddev=1.0 / math.sqrt(embedding_size)))
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(tf.nn.nce_loss(
        weights=nce_weights, biases=nce_biases, labels=train_labels, inputs=embed,
        num_sampled=num_sampled, num_classes=vocabulary_size))
    optimizer = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    normalized = embeddings / norm
    similarity = tf.matmul(tf.nn.embedding_lookup(normalized, valid_dataset), normalized,
                           transpose_b=True)
    init = tf1.global_variables_initializer()

with tf1.Session(graph=graph) as session:
    init.run()
    average_loss = 0
    for step in range(100001):
        bi, bl = generate_batch(batch_size, 2, 1)
        _, loss_val = session.run([optimizer, loss], feed_dict={train_inputs: bi, train_labels: bl})  #! feed-without-queue
        average_loss += loss_val
        if step % 2000 == 0:
            print('Average loss at step', step, ':', average_loss)
            average_loss = 0
        if step % 10000 == 0:
            sim = similarity.eval()
    final_embeddings = normalized.eval()
