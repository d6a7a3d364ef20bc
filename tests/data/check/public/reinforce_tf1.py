import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

class policyGradientAgent():
    def __init__(self, lr, s_size, a_size, h_size):
        self.state_in = tf.placeholder(shape=[None, s_size], dtype=tf.float32)  #! unknown-shape
        hidden = tf.layers.dense(self.state_in, h_size, use_bias=False, activation=tf.nn.relu)
        self.output = tf.layers.dense(hidden, a_size, activation=tf.nn.softmax, use_bias=False)
        self.chosen_action = tf.argmax(self.output, 1)
        self.reward_holder = tf.placeholder(shape=[None], dtype=tf.float32)  #! unknown-shape
        self.action_holder = tf.placeholder(shape=[None], dtype=tf.int32)  #! unknown-shape
        self.indexes = tf.range(0, tf.shape(self.output)[0]) * tf.shape(self.output)[1] + self.action_holder
        self.responsible_outputs = tf.gather(tf.reshape(self.output, [-1]), self.indexes)
        self.loss = -tf.reduce_mean(tf.log(self.responsible_outputs) * self.reward_holder)
        tvars = tf.trainable_variables()
        self.gradient_holders = []
        for idx, var in enumerate(tvars):
            self.gradient_holders.append(tf.placeholder(tf.float32, name=str(idx) + '_holder'))  #! unknown-shape
        self.gradients = tf.gradients(self.loss, tvars)
        optimizer = tf.train.AdamOptimizer(learning_rate=lr)
        self.update_batch = optimizer.apply_gradients(zip(self.gradient_holders, tvars))

def discount(r, gamma=0.99):
    out, running = np.zeros_like(r), 0
    for t in reversed(range(0, r.size)):
        running = running * gamma + r[t]
        out[t] = running
    return out

agent = policyGradientAgent(lr=1e-2, s_size=4, a_size=2, h_size=8)
init = tf.global_variables_initializer()
with tf.Session() as sess:
    sess.run(init)
    gradBuffer = sess.run(tf.trainable_variables())
    for ix, grad in enumerate(gradBuffer):
        gradBuffer[ix] = grad * 0
    i = 0
    while i < 5000:
        s = np.random.rand(4)
        history = []
        for j in range(99):
            a_dist = sess.run(agent.output, feed_dict={agent.state_in: [s]})
            p = np.asarray(a_dist[0], np.float64) + 1e-6
            a = np.random.choice(2, p=p / p.sum())
            s1, r, d = np.random.rand(4), 1.0 * (a == 0), j > 20
            history.append([s, a, r, s1])
            s = s1
            if d:
                break
        ep = np.array(history, dtype=object)
        ep[:, 2] = discount(ep[:, 2].astype(float))
        feed = {agent.reward_holder: ep[:, 2], agent.action_holder: ep[:, 1],
                agent.state_in: np.vstack(ep[:, 0])}
        grads = sess.run(agent.gradients, feed_dict=feed)
        for idx, grad in enumerate(grads):
            gradBuffer[idx] += grad
        if i % 5 == 0 and i != 0:
            sess.run(agent.update_batch, feed_dict=dict(zip(agent.gradient_holders, gradBuffer)))
        i += 1
