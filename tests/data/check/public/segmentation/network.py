import tensorflow as tf
from tensorflow.keras import layers as L


class ConvBN(L.Layer):
    def __init__(self, filters, kernel=3, strides=1, rate=1, **kwargs):
        super().__init__(**kwargs)
        self.conv = L.Conv2D(filters, kernel, strides, 'same', dilation_rate=rate, use_bias=False,
                             kernel_regularizer=tf.keras.regularizers.l2(1e-4))
        self.bn = L.BatchNormalization(momentum=0.95, epsilon=1e-3)

    def call(self, x, training=None):
        return tf.nn.relu(self.bn(self.conv(x), training=training))


class ASPP(L.Layer):
    def __init__(self, filters, rates=(6, 12, 18), **kwargs):
        super().__init__(**kwargs)
        self.branches = [ConvBN(filters, 1)] + [ConvBN(filters, 3, rate=r) for r in rates]
        self.pool = ConvBN(filters, 1)
        self.join = ConvBN(filters, 1)
        self.dropout = L.Dropout(0.1)

    def call(self, x, training=None):
        size = tf.shape(x)[1:3]
        pooled = self.pool(tf.reduce_mean(x, [1, 2], keepdims=True), training=training)
        parts = [b(x, training=training) for b in self.branches]
        parts.append(tf.image.resize(pooled, size))
        y = self.join(tf.concat(parts, -1), training=training)
        return self.dropout(y, training=training)


class DeepLab(tf.keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.stem = ConvBN(32, strides=2)
        self.low = [ConvBN(64, strides=2), ConvBN(64)]
        self.high = [ConvBN(128, strides=2), ConvBN(128), ConvBN(256, strides=2), ConvBN(256, rate=2)]
        self.aspp = ASPP(128)
        self.reduce = ConvBN(48, 1)
        self.refine = ConvBN(128)
        self.head = L.Conv2D(classes, 1, dtype='float32')

    def call(self, images, training=None):
        x = self.stem(images, training=training)
        for layer in self.low:
            x = layer(x, training=training)
        low = self.reduce(x, training=training)
        for layer in self.high:
            x = layer(x, training=training)
        x = self.aspp(x, training=training)
        x = tf.image.resize(x, tf.shape(low)[1:3])
        x = self.refine(tf.concat([x, low], -1), training=training)
        return tf.image.resize(self.head(x), tf.shape(images)[1:3])
