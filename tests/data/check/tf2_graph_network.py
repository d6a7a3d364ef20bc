import tensorflow as tf
import numpy as np
import scipy.sparse as sps

A = sps.random(1000, 1000, .01).tocoo()
adj = tf.SparseTensor(np.stack([A.row, A.col], 1), A.data, A.shape)
X = np.random.rand(1000, 32)
Y = np.random.randint(0, 4, 1000)


class GCN(tf.Module):
    def __init__(self):
        self.w1 = tf.Variable(tf.random.normal([32, 16], dtype=tf.float64))  #! float64
        self.w2 = tf.Variable(tf.random.normal([16, 4], dtype=tf.float64))  #! float64
        self.losses = []

    @tf.function
    def __call__(self, adj, x):
        h = tf.nn.relu(tf.sparse.sparse_dense_matmul(adj, x @ self.w1))  #! unsupported-op
        return tf.sparse.sparse_dense_matmul(adj, h @ self.w2)  #! unsupported-op


m = GCN()
opt = tf.optimizers.Adam(0.01)
history = []


@tf.function
def step():
    with tf.GradientTape() as t:
        logits = m(adj, X)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(Y, logits))
        history.append(loss)  #! python-side-effect
    v = m.trainable_variables
    opt.apply_gradients(zip(t.gradient(loss, v), v))
    u, s, vt = tf.linalg.svd(m.w1)
    e, _ = tf.linalg.eigh(tf.matmul(m.w1, m.w1, transpose_a=True))
    return loss


for i in range(200):
    print(step().numpy())  #! host-round-trip
