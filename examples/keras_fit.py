# Keras: model.fit, evaluate and predict on an IPU, ten steps a launch, and on two IPUs.
import numpy as np
import tensorflow as tf
from tensorflow import keras

from tensorflow.python import ipu

BATCH = 16

random = np.random.RandomState(1)
points = random.uniform(-1, 1, size=[1600, 2]).astype(np.float32)
inside = (np.hypot(*points.T) < 0.7).astype(np.int32)  # an IPU takes no int64


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def batches(size):  # the shapes of all elements must be known
    dataset = tf.data.Dataset.from_tensor_slices((points, inside))
    return dataset.batch(size, drop_remainder=True)


def model():
    keras.utils.set_random_seed(2)
    made = keras.Sequential([keras.layers.Dense(32, activation="relu", input_shape=(2,)),
                             keras.layers.Dense(2)])
    made.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], steps_per_execution=10,
                 loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


with configure(1).scope():  # a model that is made here runs on the IPU
    one = model()
    losses = one.fit(batches(BATCH), epochs=3, verbose=0).history["loss"]
    print("loss falls:", losses == sorted(losses, reverse=True))
    loss, accuracy = one.evaluate(batches(BATCH), verbose=0)
    print("accuracy above 0.95:", accuracy > 0.95)
    right = np.argmax(one.predict(batches(BATCH).map(lambda x, y: x), verbose=0), 1) == inside
    print("predictions:", len(right), "as accurate:", abs(np.mean(right) - accuracy) < 1e-6)

    large = model()  # an update from two batches
    large.set_gradient_accumulation_options(2, "mean")
    large.fit(batches(BATCH), epochs=1, verbose=0)
    print("updates of an epoch:", int(large.optimizer.iterations))

with configure(2).scope():  # two replicas: each takes every other batch
    two = model()
    two.set_replication_options("mean")  # of metrics; gradients are summed
    history = two.fit(batches(BATCH), epochs=3, verbose=0).history
    print("steps of each replica:", two.history.params["steps"])
    print("accuracy above 0.9:", history["accuracy"][-1] > 0.9)
