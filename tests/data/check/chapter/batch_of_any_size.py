# "The minimal batch size for the model": the size must be one number.
import tensorflow as tf

data = tf.data.Dataset.from_tensor_slices((tf.zeros([100, 8]), tf.zeros([100, 1])))
model = tf.keras.Sequential([tf.keras.layers.Dense(8), tf.keras.layers.BatchNormalization()])
model.compile("sgd", "mse")
model.fit(data.shuffle(100).batch(16))  #! drop-remainder
