import tensorflow as tf
import tensorflow_hub as hub
resolver = tf.distribute.cluster_resolver.TPUClusterResolver("grpc://x")  #! tpu-only
tf.config.experimental_connect_to_cluster(resolver)  #! tpu-only
tf.tpu.experimental.initialize_tpu_system(resolver)  #! tpu-only
strategy = tf.distribute.TPUStrategy(resolver)  #! tpu-only
with strategy.scope():
    text = tf.keras.Input(shape=(), dtype=tf.string)  #! float64
    enc = hub.KerasLayer("https://x/bert", trainable=True)(hub.KerasLayer("https://x/pre")(text))
    net = tf.keras.layers.Dropout(.1)(enc["pooled_output"])
    net = tf.keras.layers.Dense(1)(net)
    model = tf.keras.Model(text, net)
    opt = tf.keras.optimizers.experimental.AdamW(3e-5, epsilon=1e-8)
    model.compile(opt, tf.keras.losses.BinaryCrossentropy(from_logits=True), steps_per_execution=32)
ds = tf.keras.utils.text_dataset_from_directory("aclImdb/train", batch_size=32)  #! drop-remainder
model.fit(ds, epochs=3, callbacks=[tf.keras.callbacks.TensorBoard("logs", write_graph=True),
                                   tf.keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: print(batch))])
