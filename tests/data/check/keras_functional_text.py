"""A text classifier: the strings are the host's."""
import re
import string

import tensorflow as tf
from tensorflow import keras

BATCH, WORDS, LENGTH = 64, 20000, 200


def clean(text):
    lower = tf.strings.lower(text)
    return tf.strings.regex_replace(lower, f"[{re.escape(string.punctuation)}]", "")


vectorize = keras.layers.TextVectorization(
    standardize=clean, max_tokens=WORDS, output_sequence_length=LENGTH)


def prepare(raw):
    return raw.map(lambda text, label: (vectorize(text), label)).cache().prefetch(tf.data.AUTOTUNE)  #! int64


texts = tf.data.Dataset.from_tensor_slices((["a good film", "a bad one"], [1, 0]))
vectorize.adapt(texts.map(lambda text, _: text))
train = prepare(texts).repeat().batch(BATCH, drop_remainder=True)

tokens = keras.Input(shape=(LENGTH,), dtype="int32")
h = keras.layers.Embedding(WORDS, 64)(tokens)
h = keras.layers.Bidirectional(keras.layers.LSTM(32))(h)
outputs = keras.layers.Dense(1)(h)
model = keras.Model(tokens, outputs)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, steps_per_epoch=10, epochs=2)
