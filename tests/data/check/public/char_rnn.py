from __future__ import print_function
import numpy as np
import tensorflow as tf

# hyperparameters
class Config:
    num_steps = 32
    batch_size = 50
    state_size = 128
    num_layers = 2
    learning_rate = 1e-3

config = Config()
raw_data = "It was the best of times, it was the worst of times. " * 500
vocab = sorted(set(raw_data))
idx_to_vocab = dict(enumerate(vocab))
vocab_to_idx = dict(zip(idx_to_vocab.values(), idx_to_vocab.keys()))
data = [vocab_to_idx[c] for c in raw_data]

def ptb_iterator(raw, batch_size, num_steps):
    raw = np.array(raw, dtype=np.int32)
    batch_len = len(raw) // batch_size
    arr = raw[:batch_size * batch_len].reshape(batch_size, batch_len)
    for i in range((batch_len - 1) // num_steps):
        yield (arr[:, i * num_steps:(i + 1) * num_steps], arr[:, i * num_steps + 1:(i + 1) * num_steps + 1])

def build_graph(c, num_classes):
    tf.compat.v1.reset_default_graph()
    x = tf.compat.v1.placeholder(tf.int32, [c.batch_size, c.num_steps], name='input_placeholder')
    y = tf.compat.v1.placeholder(tf.int32, [c.batch_size, c.num_steps], name='labels_placeholder')
    dropout = tf.constant(1.0)
    embeddings = tf.compat.v1.get_variable('embedding_matrix', [num_classes, c.state_size])
    rnn_inputs = tf.nn.embedding_lookup(embeddings, x)
    cell = tf.compat.v1.nn.rnn_cell.MultiRNNCell(
        [tf.compat.v1.nn.rnn_cell.BasicLSTMCell(c.state_size, state_is_tuple=True) for _ in range(c.num_layers)],
        state_is_tuple=True)
    init_state = cell.zero_state(c.batch_size, tf.float32)
    rnn_outputs, final_state = tf.compat.v1.nn.dynamic_rnn(cell, rnn_inputs, initial_state=init_state)
    with tf.compat.v1.variable_scope('softmax'):
        W = tf.compat.v1.get_variable('W', [c.state_size, num_classes])
        b = tf.compat.v1.get_variable('b', [num_classes], initializer=tf.compat.v1.constant_initializer(0.0))
    logits = tf.matmul(tf.reshape(rnn_outputs, [-1, c.state_size]), W) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=tf.reshape(y, [-1])))
    step = tf.compat.v1.train.AdamOptimizer(c.learning_rate).minimize(loss)
    return dict(x=x, y=y, init_state=init_state, final_state=final_state, total_loss=loss,
                train_step=step, saver=tf.compat.v1.train.Saver())

if __name__ == '__main__':
    tf.compat.v1.disable_eager_execution()
    g = build_graph(config, len(vocab))
    with tf.compat.v1.Session() as sess:
        sess.run(tf.compat.v1.global_variables_initializer())
        for epoch in range(20):
            training_loss, steps, training_state = 0, 0, None
            for X, Y in ptb_iterator(data, config.batch_size, config.num_steps):
                steps += 1
                feed_dict = {g['x']: X, g['y']: Y}
                if training_state is not None:
                    feed_dict[g['init_state']] = training_state
                training_loss_, training_state, _ = sess.run(
                    [g['total_loss'], g['final_state'], g['train_step']], feed_dict)  #! feed-without-queue
                training_loss += training_loss_
            print("Average training loss for Epoch", epoch, ":", training_loss / steps)
        g['saver'].save(sess, "saves/char_rnn")
