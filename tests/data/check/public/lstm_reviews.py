#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""Bidirectional LSTM on movie reviews, from raw text."""
import os
import re
import string
import sys

import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow.keras import callbacks, layers, losses, optimizers

MAX_FEATURES = 20000
SEQUENCE_LENGTH = 250
EMBEDDING = 128
BATCH = 32
LOG_DIR = os.environ.get('LOG_DIR', 'logs')


def standardize(text):
    lowercase = tf.strings.lower(text)
    stripped = tf.strings.regex_replace(lowercase, '<br />', ' ')
    return tf.strings.regex_replace(stripped, '[%s]' % re.escape(string.punctuation), '')


def load_splits():
    (train, val, test), info = tfds.load(
        'imdb_reviews', split=['train[:80%]', 'train[80%:]', 'test'], as_supervised=True, with_info=True)
    print('classes:', info.features['label'].num_classes)
    return train, val, test


vectorize_layer = layers.TextVectorization(
    standardize=standardize, max_tokens=MAX_FEATURES, output_mode='int',
    output_sequence_length=SEQUENCE_LENGTH)


def vectorize(text, label):
    return vectorize_layer(text), label


def prepare(ds, training=False):
    if training:
        ds = ds.shuffle(10000)
    ds = ds.batch(BATCH)  #! drop-remainder
    ds = ds.map(vectorize, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


class F1(tf.keras.metrics.Metric):
    def __init__(self, name='f1', **kwargs):
        super().__init__(name=name, **kwargs)
        self.precision = tf.keras.metrics.Precision(thresholds=0.0)
        self.recall = tf.keras.metrics.Recall(thresholds=0.0)

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.precision.update_state(y_true, y_pred, sample_weight)
        self.recall.update_state(y_true, y_pred, sample_weight)

    def result(self):
        p, r = self.precision.result(), self.recall.result()
        return 2 * p * r / (p + r + 1e-7)

    def reset_state(self):
        self.precision.reset_state()
        self.recall.reset_state()


def build_model():
    model = tf.keras.Sequential([
        layers.Embedding(MAX_FEATURES + 1, EMBEDDING, mask_zero=True),
        layers.SpatialDropout1D(0.2),
        layers.Bidirectional(layers.LSTM(64, return_sequences=True, dropout=0.2)),
        layers.Bidirectional(layers.LSTM(32)),
        layers.Dense(64, activation='relu'),
        layers.Dropout(0.5),
        layers.Dense(1),
    ])
    model.compile(loss=losses.BinaryCrossentropy(from_logits=True),
                  optimizer=optimizers.Adam(1e-4, clipnorm=1.0),
                  metrics=['accuracy', F1()])
    return model


def export(model):
    """A model that takes raw strings."""
    return tf.keras.Sequential([
        tf.keras.Input(shape=(1,), dtype=tf.string),  #! float64
        vectorize_layer,
        model,
        layers.Activation('sigmoid'),
    ])


def scheduler(epoch, lr):
    return lr if epoch < 3 else lr * tf.math.exp(-0.1).numpy()


def main(argv):
    epochs = int(argv[1]) if len(argv) > 1 else 10
    raw_train, raw_val, raw_test = load_splits()
    vectorize_layer.adapt(raw_train.map(lambda text, label: text).batch(1024))
    train_ds, val_ds, test_ds = prepare(raw_train, True), prepare(raw_val), prepare(raw_test)

    model = build_model()
    history = model.fit(
        train_ds, validation_data=val_ds, epochs=epochs,
        callbacks=[callbacks.EarlyStopping(patience=2, restore_best_weights=True),
                   callbacks.LearningRateScheduler(scheduler),
                   callbacks.TensorBoard(LOG_DIR, histogram_freq=1),
                   callbacks.ModelCheckpoint('best.h5', save_best_only=True, monitor='val_loss')])
    print('best validation loss', min(history.history['val_loss']))

    loss, accuracy, f1 = model.evaluate(test_ds)
    print('Test loss %.3f, accuracy %.3f, f1 %.3f' % (loss, accuracy, f1))

    full = export(model)
    for review in ['The movie was great!', 'The movie was okay.', 'The movie was terrible...']:
        score = full.predict(tf.constant([[review]]))
        print('%-40s %.3f' % (review, score[0][0]))
    full.save('exported', save_format='tf')


if __name__ == '__main__':
    main(sys.argv)
