# Keras: a model in two stages on two IPUs, trained by fit(), with the numbers of stock Keras.
import numpy as np
import tensorflow as tf
from tensorflow import keras

from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()

random = np.random.default_rng(1)
points = random.uniform(-1, 1, size=[512, 2]).astype(np.float32)
inside = (np.hypot(*points.T) < 0.7).astype(np.float32)[:, None]


def batches(size):
    dataset = tf.data.Dataset.from_tensor_slices((points, inside))
    return dataset.batch(size, drop_remainder=True)


def layers():
    keras.utils.set_random_seed(1)
    return (keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"))


def compiled(model, steps_per_execution):
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy",
                  steps_per_execution=steps_per_execution)
    return model


strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    first, second, last = layers()
    x = keras.Input([2])
    with ipu.keras.PipelineStage(0):
        h = first(x)
        h = second(h)
    with ipu.keras.PipelineStage(1):
        y = last(h)
    model: keras.Model = keras.Model(x, y, name="circle")
    # 8 batches of 8 for each update of the weights, 8 updates for each execution: an epoch.
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=8, gradient_accumulation_reduction_method="mean",
        pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Interleaved)
    model.print_pipeline_stage_assignment_summary(line_length=75)
    history = compiled(model, 64).fit(batches(8), epochs=20, verbose=0).history
    print("loss falls:", history["loss"][-1] < history["loss"][0])

# The same with stock Keras, whose batches are as large as those of an update.
first, second, last = layers()
x = keras.Input([2])
stock = compiled(keras.Model(x, last(second(first(x)))), 1)
stock.fit(batches(64), epochs=20, verbose=0)
print("as stock Keras on the CPU:",
      np.allclose(model.predict(batches(8).map(lambda x, y: x), verbose=0),
                  stock.predict(points, verbose=0), rtol=1e-3, atol=1e-4))
