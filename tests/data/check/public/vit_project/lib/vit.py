import tensorflow as tf

L = tf.keras.layers


class PatchEmbed(L.Layer):
    def __init__(self, config):
        super().__init__()
        self.proj = L.Conv2D(config.width, config.patch, config.patch)
        self.config = config

    def build(self, shape):
        count = (self.config.image // self.config.patch) ** 2
        self.cls = self.add_weight('cls', [1, 1, self.config.width])
        self.pos = self.add_weight('pos', [1, count + 1, self.config.width])

    def call(self, images):
        x = self.proj(images)
        x = tf.reshape(x, [-1, x.shape[1] * x.shape[2], self.config.width])
        cls = tf.broadcast_to(self.cls, [tf.shape(x)[0], 1, self.config.width])
        return tf.concat([tf.cast(cls, x.dtype), x], 1) + tf.cast(self.pos, x.dtype)


def encoder(x, config):
    y = L.LayerNormalization(epsilon=1e-6)(x)
    y = L.MultiHeadAttention(config.heads, config.width // config.heads)(y, y)
    x = L.Add()([x, y])
    y = L.LayerNormalization(epsilon=1e-6)(x)
    y = L.Dense(config.width * 4, activation=tf.nn.gelu)(y)
    return L.Add()([x, L.Dense(config.width)(y)])


def create(config):
    images = tf.keras.Input([config.image, config.image, 3])
    x = PatchEmbed(config)(images)
    for _ in range(config.depth):
        x = encoder(x, config)
    x = L.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    return tf.keras.Model(images, L.Dense(config.classes, dtype='float32')(x))
