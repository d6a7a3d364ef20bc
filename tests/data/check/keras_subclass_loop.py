"""Subclassed layers and model, a loop of one's own."""
import time

import tensorflow as tf


class Attention(tf.keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.query = tf.keras.layers.Dense(units)
        self.key = tf.keras.layers.Dense(units)

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
        super().build(shape)

    def call(self, values, mask=None):
        scores = tf.matmul(self.query(values), self.key(values), transpose_b=True) * self.scale
        if mask is not None:
            scores += (1.0 - mask) * -1e9
        return tf.matmul(tf.nn.softmax(scores), values)


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Attention(32) for _ in range(2)]
        self.outputs_layer = tf.keras.layers.Dense(4)

    def call(self, inputs, training=False):
        x = inputs
        for block in self.blocks:
            x = block(x)
        return self.outputs_layer(tf.reduce_mean(x, axis=1))


model, optimizer = Model(), tf.keras.optimizers.Adam(1e-3, epsilon=1e-9)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_loss = tf.keras.metrics.Mean()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_object(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    train_loss(loss)


data = tf.data.Dataset.from_tensor_slices((tf.zeros([100, 8, 16]), tf.zeros([100], tf.int32)))
for epoch in range(2):
    start = time.time()
    train_loss.reset_states()
    for step, (x, y) in enumerate(data.shuffle(100).batch(10)):  #! drop-remainder
        train_step(x, y)  #! feed-without-queue
        if step % 5 == 0:
            print(step, train_loss.result().numpy())
    print(f"epoch {epoch}: {time.time() - start:.1f} s, {float(train_loss.result()):.3f}")
