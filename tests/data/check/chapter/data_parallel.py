# "Distribute the same task on multiple devices, feeding each with a different batch".
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["/gpu:0", "/gpu:1"])  #! gpu-only
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, input_shape=(4,))])
    model.compile("sgd", "mse")
