import numpy as np
import tensorflow as tf


class Attention(tf.keras.layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.width, self.heads = width, heads
        self.qkv = tf.keras.layers.Dense(3 * width)
        self.out = tf.keras.layers.Dense(width)

    def call(self, x, mask=None):
        batch, length = tf.shape(x)[0], tf.shape(x)[1]
        qkv = tf.reshape(self.qkv(x), [batch, length, 3, self.heads, self.width // self.heads])
        q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(self.width // self.heads)
        if mask is not None:
            scores += (1.0 - mask) * -1e9
        y = tf.matmul(tf.nn.softmax(scores), v)
        return self.out(tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [batch, length, self.width]))


class Block(tf.keras.layers.Layer):
    def __init__(self, width, heads, rate=0.1):
        super().__init__()
        self.attention = Attention(width, heads)
        self.mlp = tf.keras.Sequential([tf.keras.layers.Dense(4 * width, 'gelu'),
                                        tf.keras.layers.Dense(width)])
        self.norms = [tf.keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.drop = tf.keras.layers.Dropout(rate)

    def call(self, x, mask=None, training=False):
        x += self.drop(self.attention(self.norms[0](x), mask), training=training)
        return x + self.drop(self.mlp(self.norms[1](x)), training=training)


class LanguageModel(tf.keras.Model):
    def __init__(self, vocab, width=256, depth=4, heads=8, length=128):
        super().__init__()
        self.words = tf.keras.layers.Embedding(vocab, width)
        self.places = self.add_weight('places', [length, width])
        self.blocks = [Block(width, heads) for _ in range(depth)]
        self.head = tf.keras.layers.Dense(vocab)

    def call(self, tokens, training=False):
        length = tf.shape(tokens)[1]
        mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
        x = self.words(tokens) + self.places[:length]
        for block in self.blocks:
            x = block(x, mask, training=training)
        return self.head(x)

    def train_step(self, data):  #! own-train-step
        tokens = data
        with tf.GradientTape() as tape:
            logits = self(tokens[:, :-1], training=True)
            loss = self.compiled_loss(tokens[:, 1:], logits)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.compiled_metrics.update_state(tokens[:, 1:], logits)
        return {m.name: m.result() for m in self.metrics}


def windows(path, length, batch):
    text = tf.io.read_file(path)
    chars = tf.strings.unicode_decode(text, 'UTF-8')
    ds = tf.data.Dataset.from_tensor_slices(chars)
    ds = ds.batch(length + 1, drop_remainder=True)
    ds = ds.map(lambda x: tf.cast(x, tf.int32))
    return ds.shuffle(10000).batch(batch, drop_remainder=True)


def sample(model, start, count):
    tokens = tf.constant([start])
    for _ in range(count):
        logits = model(tokens)[:, -1]
        token = tf.random.categorical(logits, 1, dtype=tf.int32)
        tokens = tf.concat([tokens, token], axis=1)
    return tokens[0].numpy()


if __name__ == '__main__':
    model = LanguageModel(256)
    model.compile(tf.keras.optimizers.Adam(3e-4, epsilon=1e-9),
                  tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(windows('input.txt', 128, 32), epochs=10)
    print(sample(model, [10, 20], 100))
