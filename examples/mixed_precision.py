# Keras in half precision: layers compute in float16, variables are float32, and the loss is scaled
# by a factor that follows the gradients.
import numpy as np
import tensorflow as tf

from tensorflow.python import ipu

keras = tf.keras
optimizers = ipu.keras.optimizers
STEPS, BATCH = 50, 16

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

random = np.random.RandomState(1)
points = random.uniform(-1, 1, size=[STEPS * BATCH, 2]).astype(np.float32)
inside = (np.hypot(*points.T) < 0.7).astype(np.float32)[:, None]
dataset = tf.data.Dataset.from_tensor_slices((points, inside)).batch(BATCH, drop_remainder=True)

keras.utils.set_random_seed(1)
keras.mixed_precision.set_global_policy("mixed_float16")
with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.Sequential([
        keras.layers.Dense(32, activation="tanh", input_shape=[2]),
        keras.layers.Dense(32, activation="tanh"),
        keras.layers.Dense(1),
        keras.layers.Activation("sigmoid", dtype="float32")])
    optimizer = optimizers.ALSOptimizer(
        keras.optimizers.legacy.Adam(0.02), initial_loss_scaling_factor=16.0, update_frequency=10)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"],
                  steps_per_execution=STEPS)
    history = model.fit(dataset, epochs=20, verbose=0).history
    print("computes in", model.layers[0].compute_dtype, "with variables in",
          model.layers[0].kernel.dtype.name)
    print(history);print("accuracy above 0.9:", history["accuracy"][-1] > 0.9)
    print("the factor has grown:", float(optimizer.loss_scaling_factor) > 16)
