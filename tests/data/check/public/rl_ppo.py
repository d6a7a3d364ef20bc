"""PPO on a toy environment, TensorFlow 2."""
import argparse

import numpy as np
import tensorflow as tf


class Env:
    def __init__(self, rng):
        self.rng, self.state = rng, np.zeros(4)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action):
        self.state = self.state + 0.02 * np.array([self.state[1], action - 0.5, self.state[3], 0.1])
        return self.state, 1.0, bool(abs(self.state[0]) > 2.4)


class ActorCritic(tf.keras.Model):
    def __init__(self, actions):
        super().__init__()
        self.body = tf.keras.Sequential([tf.keras.layers.Dense(64, 'tanh') for _ in range(2)])
        self.policy = tf.keras.layers.Dense(actions)
        self.value = tf.keras.layers.Dense(1)

    def call(self, states):
        x = self.body(states)
        return self.policy(x), tf.squeeze(self.value(x), -1)


class PPO:
    def __init__(self, actions, clip=0.2):
        self.model, self.clip = ActorCritic(actions), clip
        self.optimizer = tf.keras.optimizers.Adam(3e-4, epsilon=1e-5)

    @tf.function
    def act(self, states):
        logits, values = self.model(states)
        actions = tf.squeeze(tf.random.categorical(logits, 1), -1)
        log = tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
        return actions, -log, values

    @tf.function
    def update(self, states, actions, old_log, advantages, returns):
        with tf.GradientTape() as tape:
            logits, values = self.model(states)
            log = -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
            ratio = tf.exp(log - old_log)
            clipped = tf.clip_by_value(ratio, 1 - self.clip, 1 + self.clip)
            policy = -tf.reduce_mean(tf.minimum(ratio * advantages, clipped * advantages))
            value = tf.reduce_mean((returns - values) ** 2)
            p = tf.nn.softmax(logits)
            entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p + 1e-8), -1))
            loss = policy + 0.5 * value - 0.01 * entropy
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 0.5)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


def gae(rewards, values, last, gamma=0.99, lam=0.95):
    result, running = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * (values[t + 1] if t + 1 < len(rewards) else last) - values[t]
        running = delta + gamma * lam * running
        result[t] = running
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--iterations', type=int, default=100)
    args = parser.parse_args()
    env, agent = Env(np.random.RandomState(0)), PPO(2)
    state = env.reset()
    for iteration in range(args.iterations):
        rows = []
        for _ in range(256):
            action, log, value = agent.act(state[None].astype(np.float32))
            state_, reward, done = env.step(int(action[0]))  #! host-round-trip
            rows.append((state, action[0], log[0], value[0], reward))
            state = env.reset() if done else state_
        states, actions, logs, values, rewards = (np.array(x, np.float32) for x in zip(*rows))
        advantages = gae(rewards, values, values[-1])
        data = tf.data.Dataset.from_tensor_slices(
            (states, actions.astype(np.int64), logs, advantages.astype(np.float32),  #! int64
             (advantages + values).astype(np.float32)))
        for epoch in range(4):
            for minibatch in data.shuffle(256).batch(64):  #! drop-remainder
                loss = agent.update(*minibatch)  #! feed-without-queue
        print(iteration, float(loss))


if __name__ == '__main__':
    main()
