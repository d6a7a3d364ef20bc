import tensorflow as tf
from tensorflow.keras import layers, models

(x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()
x_train, x_test = x_train[..., None] / 255.0, x_test[..., None] / 255.0

model = models.Sequential()
model.add(layers.Conv2D(32, (3, 3), activation="relu", input_shape=(28, 28, 1)))
model.add(layers.MaxPooling2D((2, 2)))
model.add(layers.Flatten())
model.add(layers.Dropout(0.5))
model.add(layers.Dense(10, activation="softmax"))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [tf.keras.callbacks.EarlyStopping(patience=2),
             tf.keras.callbacks.TensorBoard(log_dir="logs")]
history = model.fit(x_train, y_train, batch_size=128, epochs=5, validation_split=0.1,
                    callbacks=callbacks)
print(model.evaluate(x_test, y_test))
for name, values in history.history.items():
    print(name, float(values[-1]))
