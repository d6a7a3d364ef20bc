import random

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu", input_shape=(4,)),
                             tf.keras.layers.Dense(2)])
target = tf.keras.models.clone_model(model)
optimizer = tf.keras.optimizers.Adam(1e-3)
memory = [(np.zeros(4, "f4"), random.randrange(2), np.float32(1)) for _ in range(1000)]


@tf.function
def train_step(state, action, reward):
    wanted = reward + 0.99 * tf.reduce_max(target(state), axis=1)
    with tf.GradientTape() as tape:
        q = tf.reduce_sum(model(state) * tf.one_hot(action, 2), axis=1)
        loss = tf.reduce_mean(tf.square(wanted - q))
    print("loss", loss)  #! python-side-effect
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


losses = []
for number in range(500):
    state, action, reward = map(np.array, zip(*random.sample(memory, 64)))
    loss = train_step(state, action.astype("i4"), reward)
    losses.append(float(loss))  #! host-round-trip
    if number % 100 == 0:
        target.set_weights(model.get_weights())
        print(number, int(loss))
