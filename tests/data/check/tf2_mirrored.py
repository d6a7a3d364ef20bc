import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()  #! gpu-only
GLOBAL = 64 * strategy.num_replicas_in_sync
with strategy.scope():
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(224, 224, 3))
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizer, "sparse_categorical_crossentropy")
images = tf.keras.utils.image_dataset_from_directory("images", image_size=(224, 224),  #! drop-remainder
                                                     batch_size=GLOBAL)
model.fit(images.prefetch(tf.data.AUTOTUNE), epochs=90)
