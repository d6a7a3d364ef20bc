import tensorflow as tf

a = tf.data.Dataset.range(10).batch(3)  # tremula: ignore[drop-remainder]
# tremula: ignore[drop-remainder]
b = tf.data.Dataset.range(10).batch(3)
c = tf.data.Dataset.range(10).batch(3)  # tremula: ignore[float64]  #! drop-remainder
d = tf.data.Dataset.range(10).batch(3).unbatch()
