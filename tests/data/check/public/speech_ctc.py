"""CTC speech recogniser: spectrograms in the dataset, an RNN in Keras, a custom loss."""
import glob

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

ALPHABET = "abcdefghijklmnopqrstuvwxyz' "
BATCH = 16
table = tf.keras.layers.StringLookup(vocabulary=list(ALPHABET), oov_token='')


def spectrogram(path):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), 1)
    stft = tf.signal.stft(tf.squeeze(audio, -1), 256, 160, 384)
    x = tf.math.pow(tf.abs(stft), 0.5)
    mean, deviation = tf.nn.moments(x, axes=[1], keepdims=True)
    return (x - mean[0]) / (tf.sqrt(deviation) + 1e-10)


def encode(path, text):
    label = table(tf.strings.unicode_split(tf.strings.lower(text), 'UTF-8'))  #! int64
    return spectrogram(path), label


def make(paths, texts):
    ds = tf.data.Dataset.from_tensor_slices((paths, texts))
    ds = ds.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.padded_batch(BATCH).prefetch(tf.data.AUTOTUNE)  #! drop-remainder


def ctc(truth, predicted):
    batch = tf.cast(tf.shape(truth)[0], dtype='int64')  #! int64
    inputs = tf.cast(tf.shape(predicted)[1], dtype='int64') * tf.ones((batch, 1), dtype='int64')  #! int64 int64
    labels = tf.cast(tf.shape(truth)[1], dtype='int64') * tf.ones((batch, 1), dtype='int64')  #! int64 int64
    return tf.keras.backend.ctc_batch_cost(truth, predicted, labels, inputs)


def build(units=256):
    spectrum = layers.Input((None, 193), name='input')  #! unknown-shape
    x = layers.Reshape((-1, 193, 1))(spectrum)
    x = layers.Conv2D(32, [11, 41], [2, 2], 'same', use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.Reshape((-1, x.shape[-2] * x.shape[-1]))(x)
    for i in range(3):
        x = layers.Bidirectional(layers.GRU(units, return_sequences=True))(x)
        x = layers.Dropout(0.5)(x)
    x = layers.Dense(units * 2, 'relu')(x)
    model = tf.keras.Model(spectrum, layers.Dense(len(ALPHABET) + 2, 'softmax')(x))
    model.compile(tf.keras.optimizers.Adam(1e-4), loss=ctc)
    return model


class Show(tf.keras.callbacks.Callback):
    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    def on_epoch_end(self, epoch, logs=None):
        for x, y in self.dataset.take(2):
            predicted = self.model.predict(x)  #! host-round-trip
            lengths = np.ones(predicted.shape[0]) * predicted.shape[1]
            best = tf.keras.backend.ctc_decode(predicted, lengths, greedy=True)[0][0]
            print(best[0], y[0])


if __name__ == '__main__':
    files = sorted(glob.glob('wavs/*.wav'))
    words = [open(f.replace('.wav', '.txt')).read() for f in files]
    split = int(0.9 * len(files))
    valid = make(files[split:], words[split:])
    build().fit(make(files[:split], words[:split]), validation_data=valid, epochs=40,
                callbacks=[Show(valid)])
