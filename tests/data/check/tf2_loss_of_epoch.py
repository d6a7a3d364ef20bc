# The loss is read behind the loop over batches, once an epoch: no step waits for it.
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(4,))])
optimizer = tf.keras.optimizers.SGD(0.05)
x = np.zeros([100, 4], np.float32)
data = tf.data.Dataset.from_tensor_slices(x).batch(10, drop_remainder=True)


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(2):
    for x in data:
        loss = train_step(x)  #! feed-without-queue
    print("epoch", epoch, "loss", float(loss))
