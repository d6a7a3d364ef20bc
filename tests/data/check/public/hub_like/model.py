"""A text classifier on sentence encodings, like a hub module."""
import tensorflow as tf


class SentenceEncoder(tf.keras.layers.Layer):
    """Averages word vectors of hashed words."""

    def __init__(self, buckets, dim, **kwargs):
        super().__init__(**kwargs)
        self.buckets, self.dim = buckets, dim

    def build(self, shape):
        self.table = self.add_weight('table', [self.buckets, self.dim])

    def call(self, sentences):
        words = tf.strings.split(sentences)  #! unsupported-op
        ids = tf.strings.to_hash_bucket_fast(words, self.buckets)  #! unsupported-op
        vectors = tf.nn.embedding_lookup(self.table, ids.to_tensor())
        return tf.reduce_mean(vectors, axis=1)


def build(buckets=20000, dim=128, classes=2):
    text = tf.keras.layers.Input(shape=(), dtype=tf.string, name='text')  #! float64
    x = SentenceEncoder(buckets, dim)(text)
    x = tf.keras.layers.Dense(64, activation='relu',
                              kernel_regularizer=tf.keras.regularizers.l2(1e-4))(x)
    x = tf.keras.layers.Dropout(0.5)(x)
    return tf.keras.Model(text, tf.keras.layers.Dense(classes)(x))
