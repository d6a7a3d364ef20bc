# Keras in half precision: layers compute in float16, variables are float32, and Keras scales the
# loss so that small gradients do not vanish.
import numpy as np
import tensorflow as tf

from tensorflow.python import ipu

keras = tf.keras
STEPS, BATCH = 64, 8

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.floating_point_behaviour.nanoo = True  # too large is NaN, which Keras looks for
config.configure_ipu_system()

random = np.random.RandomState(1)
x = random.uniform(-1, 1, size=[STEPS * BATCH, 20]).astype(np.float32)
y = np.argmax(x @ random.normal(size=[20, 4]), axis=1).astype(np.int32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)


def trained(policy):
    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential([
        keras.Input([20]),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(4),
        keras.layers.Activation("linear", dtype="float32")])  # the loss is float32
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"],
                  steps_per_execution=STEPS)
    return model, model.fit(dataset, epochs=10, verbose=0).history


with ipu.ipu_strategy.IPUStrategy().scope():
    _, single = trained("float32")
    model, half = trained("mixed_float16")
layer = model.layers[0]
print("computes in", layer.compute_dtype, "with variables in", layer.kernel.dtype.name)
print("the optimizer:", type(model.optimizer).__name__)
print("accuracy above 0.9:", half["accuracy"][-1] > 0.9)
print("loss near that in float32:", np.allclose(half["loss"], single["loss"], rtol=0.05))
