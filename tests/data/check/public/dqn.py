"""DQN on a toy environment, everything in one class."""
import collections
import random

import numpy as np
import tensorflow as tf


class ToyEnv:
    """An agent on a line that must reach the right end."""
    n_actions, n_obs = 2, 4

    def reset(self):
        self.pos, self.t = 0.0, 0
        return self._obs()

    def _obs(self):
        return np.array([self.pos, 1 - self.pos, self.t / 50, 1.0], np.float32)

    def step(self, a):
        self.pos += 0.1 if a else -0.1
        self.t += 1
        done = self.pos >= 1 or self.t >= 50
        return self._obs(), float(self.pos >= 1), done, {}


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = collections.deque(maxlen=capacity)

    def push(self, *transition):
        self.buffer.append(transition)

    def sample(self, n):
        batch = random.sample(self.buffer, n)
        s, a, r, s2, d = map(np.asarray, zip(*batch))
        return s.astype(np.float32), a.astype(np.int32), r.astype(np.float32), s2.astype(np.float32), d.astype(np.float32)

    def __len__(self):
        return len(self.buffer)


class Agent:
    def __init__(self, env, gamma=0.99, lr=1e-3):
        self.env, self.gamma = env, gamma
        self.q, self.target = self._net(), self._net()
        self.opt = tf.keras.optimizers.RMSprop(lr)
        self.huber = tf.keras.losses.Huber()

    def _net(self):
        net = tf.keras.Sequential([
            tf.keras.layers.Dense(64, "relu", input_shape=(self.env.n_obs,)),
            tf.keras.layers.Dense(64, "relu"),
            tf.keras.layers.Dense(self.env.n_actions)])
        return net

    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(self.env.n_actions)
        return int(tf.argmax(self.q(obs[None])[0]).numpy())

    @tf.function
    def learn(self, s, a, r, s2, d):
        best = tf.reduce_max(self.target(s2), axis=1)
        y = r + self.gamma * (1.0 - d) * best
        with tf.GradientTape() as tape:
            q = tf.reduce_sum(self.q(s) * tf.one_hot(a, self.env.n_actions), axis=1)
            loss = self.huber(y, q)
        grads = tape.gradient(loss, self.q.trainable_variables)
        grads = [tf.clip_by_norm(g, 10.0) for g in grads]
        self.opt.apply_gradients(zip(grads, self.q.trainable_variables))
        return loss

    def sync(self):
        self.target.set_weights(self.q.get_weights())


def main(episodes=200, batch=32):
    env = ToyEnv()
    agent, memory, eps = Agent(env), ReplayBuffer(10000), 1.0
    agent.sync()
    for ep in range(episodes):
        obs, done, total = env.reset(), False, 0.0
        while not done:
            a = agent.act(obs, eps)
            obs2, rew, done, _ = env.step(a)
            memory.push(obs, a, rew, obs2, float(done))
            obs, total = obs2, total + rew
            if len(memory) >= batch:
                loss = agent.learn(*memory.sample(batch))
        eps = max(0.05, eps * 0.98)
        if ep % 10 == 0:
            agent.sync()
            print("episode %d reward %.1f eps %.2f" % (ep, total, eps))


if __name__ == "__main__":
    main()
