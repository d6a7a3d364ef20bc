import numpy as np
from tensorflow import keras

inputs = keras.Input(shape=(None,), dtype="int32")  #! unknown-shape
x = keras.layers.Embedding(1000, 32, mask_zero=True)(inputs)
x = keras.layers.GRU(16)(x)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("rmsprop", "binary_crossentropy")
sequences = [[1, 2, 3], [4, 5]]
padded = keras.preprocessing.sequence.pad_sequences(sequences, maxlen=10)
model.fit(padded, np.array([0, 1]), epochs=1)
