import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()


def decode(enc, emb, steps):
    cell = tf.nn.rnn_cell.GRUCell(64)
    out = tf.TensorArray(tf.int32, size=0, dynamic_size=True)  #! unknown-shape
    tok = tf.fill([tf.shape(enc)[0]], 1)

    def cond(i, tok, st, out):
        return tf.logical_and(i < steps, tf.reduce_any(tf.not_equal(tok, 2)))

    def body(i, tok, st, out):
        o, st = cell(tf.nn.embedding_lookup(emb, tok), st)
        logits = tf.layers.dense(o, 1000, reuse=tf.AUTO_REUSE, name="proj")
        tok = tf.argmax(logits, -1, output_type=tf.int32)
        return i + 1, tok, st, out.write(i, tok)

    _, _, _, out = tf.while_loop(cond, body, [0, tok, enc, out])
    return out.stack()


def py_len(x):
    return np.array([len(i) for i in x], np.int32)


src = tf.placeholder(tf.int32, [16, 20])
emb = tf.get_variable("emb", [1000, 64])
lens = tf.py_func(py_len, [src], tf.int32)  #! host-call
sp = tf.sparse_placeholder(tf.float32)
proj = tf.sparse_tensor_dense_matmul(sp, emb)  #! unsupported-op
_, enc = tf.nn.bidirectional_dynamic_rnn(tf.nn.rnn_cell.GRUCell(32), tf.nn.rnn_cell.GRUCell(32),
                                         tf.nn.embedding_lookup(emb, src), lens, dtype=tf.float32)
enc = tf.concat(enc, -1)
out = decode(enc, emb, 20)
loss = tf.nn.ctc_loss_v2(tf.zeros([16, 5], tf.int32), tf.zeros([20, 16, 50]), None, None)
saver = tf.train.Saver(tf.trainable_variables())
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    print(s.run(out, {src: np.zeros([16, 20])}))
