# TensorFlow 2: a custom training loop on the device, 200 steps a launch.
import numpy as np
import tensorflow as tf

from tensorflow.python import ipu

STEPS, BATCH = 200, 16

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

random = np.random.RandomState(1)
points = random.uniform(-1, 1, size=[800, 2]).astype(np.float32)
inside = (np.hypot(*points.T) < 0.7).astype(np.float32)[:, None]
dataset = tf.data.Dataset.from_tensor_slices((points, inside))
dataset = dataset.repeat().batch(BATCH, drop_remainder=True)


def dense(inputs, outputs):
    start = random.normal(size=[inputs, outputs]) / np.sqrt(inputs)
    return tf.Variable(start.astype(np.float32)), tf.Variable(tf.zeros([outputs]))


strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():  # variables are made for the IPU, iter(dataset) is an infeed
    layers = [dense(2, 16), dense(16, 1)]
    moments = [tf.Variable(tf.zeros_like(one)) for layer in layers for one in layer]
    losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    batches = iter(dataset)


def network(x):
    (w1, b1), (w2, b2) = layers
    return tf.tanh(x @ w1 + b1) @ w2 + b2


@tf.function(jit_compile=True)
def train(batches, steps):
    variables = [one for layer in layers for one in layer]
    for _ in tf.range(steps):
        x, y = next(batches)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, network(x)))
        gradients = tape.gradient(loss, variables)
        for variable, moment, gradient in zip(variables, moments, gradients):
            variable.assign_sub(0.1 * moment.assign(0.9 * moment + tf.convert_to_tensor(gradient)))
        losses.enqueue(loss)


@tf.function(jit_compile=True)
def predict(x):
    return network(x) > 0.


for epoch in range(4):
    strategy.run(train, args=(batches, STEPS))
    taken = losses.dequeue()
    print(f"epoch {epoch}: {len(taken)} losses")
accuracy = np.mean(strategy.run(predict, args=(points,)).numpy() == inside)
print("accuracy above 0.95:", bool(accuracy > 0.95))
