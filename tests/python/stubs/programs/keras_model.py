"""TensorFlow 2: Keras in the scope of a strategy, with the IPU's own layers."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 4
config.device_connection.type = ipu.config.DeviceConnectionType.ON_DEMAND
config.floating_point_behaviour.esr = ipu.config.StochasticRoundingBehaviour.ON
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    x = keras.Input([16])
    with ipu.keras.PipelineStage(0):
        h = ipu.keras.layers.LayerNormalization()(keras.layers.Dense(16)(x))
    with ipu.keras.PipelineStage(1):
        y = ipu.keras.layers.Dropout(0.1)(h)
    print(y)


@ipu.outlined_function
def block(value):
    return tf.nn.relu(value)


@tf.function
def step(value):
    return ipu.cross_replica_ops.cross_replica_sum(block(value)) / 4.0


print(strategy.run(step, args=[tf.ones([4])]))
