import os

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ.get("TPU", ""))  #! tpu-only
tf.config.experimental_connect_to_cluster(resolver)  #! tpu-only
tf.tpu.experimental.initialize_tpu_system(resolver)  #! tpu-only
strategy = tf.distribute.TPUStrategy(resolver)  #! tpu-only
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
