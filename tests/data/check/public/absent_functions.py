"""Operations that an IPU does not have, by the functions, layers and arguments that need them."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


class MaskedIoU(keras.metrics.MeanIoU):
    def update_state(self, y_true, y_pred, sample_weight=None):
        mask = tf.not_equal(y_true, 255)
        return super().update_state(tf.boolean_mask(y_true, mask), y_pred)  #! value-dependent-shape


class OnHost(keras.metrics.Mean):
    def update_state(self, values, sample_weight=None):
        return super().update_state(tf.boolean_mask(values, values > 0))


@tf.function(jit_compile=True)
def step(x, boxes, weights):
    pooled = tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0]  #! unsupported-op
    small = tf.image.resize(x, [8, 8], method="bicubic")  #! unsupported-op
    fine = tf.image.resize(x, [8, 8], method=tf.image.ResizeMethod.BILINEAR)
    area = tf.image.resize(x, [8, 8], method=tf.image.ResizeMethod.AREA)  #! unsupported-op
    picture = tf.image.adjust_jpeg_quality(x[0], 80)  #! unsupported-op
    kept = tf.image.combined_non_max_suppression(boxes, x, 9, 9)  #! unsupported-op
    where = tf.raw_ops.Where(condition=x > 0)  #! value-dependent-shape
    cell = tf.raw_ops.Dilation2D(input=x, filter=weights)  #! unsupported-op
    norm = tf.math.reduce_euclidean_norm(x)  #! unsupported-op
    loss = tf.nn.sampled_softmax_loss(weights, x, x, x, 9, 99)  #! unsupported-op
    free = tf.nn.sampled_softmax_loss(weights, x, x, x, 9, 99, remove_accidental_hits=False)
    nce = tf.nn.nce_loss(weights, x, x, x, 9, 99)
    growing = tf.TensorArray(tf.float32, size=0, dynamic_size=True)  #! unknown-shape
    sized = tf.TensorArray(tf.float32, size=9, dynamic_size=True)
    with tf.device("/cpu:0"):
        python = tf.py_function(abs, [x], tf.float32)  #! host-call
        text = tf.strings.as_string(x)  #! unsupported-op
        number = x * 2.0
    return (pooled, small, fine, area, picture, kept, where, cell, norm, loss, free, nce, growing,
            sized, python, text, number)


augment = keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1)])
turning = keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1)])  #! unsupported-op
wide = layers.Lambda(lambda x: tf.cast(x, tf.float64))  #! float64
data = tf.data.Dataset.from_tensors((tf.zeros([4, 8, 8, 3]), tf.zeros([4], tf.int32)))
data = data.map(lambda x, y: (augment(x), y))
model = keras.Sequential([turning, wide, layers.UpSampling2D(interpolation="lanczos3")])  #! unsupported-op
model.compile("sgd", "mse", metrics=[MaskedIoU(21)])
model.fit(data)
OnHost().update_state(tf.zeros([3]))
