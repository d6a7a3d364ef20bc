"""Two inputs, two outputs, a tf.data pipeline over TFRecords, mixed precision."""
import argparse

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision

AUTOTUNE = tf.data.experimental.AUTOTUNE
policy = mixed_precision.Policy('mixed_float16')
mixed_precision.set_global_policy(policy)

FEATURES = {
    'image': tf.io.FixedLenFeature([], tf.string),
    'meta': tf.io.FixedLenFeature([12], tf.float32),
    'age': tf.io.FixedLenFeature([], tf.float32),
    'label': tf.io.FixedLenFeature([], tf.int64),
}


def decode(serialized):
    example = tf.io.parse_single_example(serialized, FEATURES)
    image = tf.io.decode_png(example['image'], channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.ensure_shape(image, [128, 128, 3])
    return {'image': image, 'meta': example['meta']}, {
        'age': example['age'], 'kind': tf.cast(example['label'], tf.int64)}  #! int64


def augment(inputs, targets):
    inputs['image'] = tf.image.random_brightness(inputs['image'], 0.2)
    return inputs, targets


def load(pattern, batch, training):
    ds = tf.data.Dataset.list_files(pattern)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=AUTOTUNE, num_parallel_calls=AUTOTUNE)
    ds = ds.map(decode, num_parallel_calls=AUTOTUNE)
    if training:
        ds = ds.shuffle(4096).map(augment, num_parallel_calls=AUTOTUNE)
    return ds.batch(batch, drop_remainder=training).prefetch(AUTOTUNE)


def build():
    image = keras.Input((128, 128, 3), name='image')
    meta = keras.Input((12,), name='meta')
    x = image
    for filters in (32, 64, 128):
        x = layers.SeparableConv2D(filters, 3, padding='same')(x)
        x = layers.BatchNormalization(epsilon=1e-5)(x)
        x = layers.Activation('swish')(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    y = layers.Dense(32, 'relu')(meta)
    z = layers.Concatenate()([x, y])
    age = layers.Dense(1, dtype='float32', name='age')(z)
    kind = layers.Dense(6, activation='softmax', dtype='float32', name='kind')(z)
    return keras.Model([image, meta], [age, kind])


class Lr(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        keras.backend.set_value(self.model.optimizer.lr, 1e-3 * 0.9 ** epoch)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--train', default='train/*.tfrec')
    parser.add_argument('--val', default='val/*.tfrec')
    parser.add_argument('--batch', type=int, default=64)
    args = parser.parse_args()
    model = build()
    model.compile('adam', {'age': 'mae', 'kind': 'sparse_categorical_crossentropy'},
                  metrics={'kind': ['accuracy']})
    model.fit(load(args.train, args.batch, True), epochs=20,
              validation_data=load(args.val, args.batch, False),
              callbacks=[Lr(), keras.callbacks.ModelCheckpoint('best.h5', save_best_only=True)])
