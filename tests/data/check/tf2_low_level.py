import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = rng.normal(size=(256, 3)).astype(np.float32)
Y = X @ np.array([[1.0], [2.0], [-1.0]], np.float32)


class Linear(tf.Module):
    def __init__(self, inputs, outputs, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.random.normal([inputs, outputs]), name="w")
        self.b = tf.Variable(tf.zeros([outputs]), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


model = Linear(3, 1)
rate = tf.constant(0.1)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        v.assign_sub(rate * g)
    return loss


losses = []
for i in range(100):
    loss = step(X, Y)
    losses.append(loss)
print("last", losses[-1].numpy(), "best", min(float(one) for one in losses))
