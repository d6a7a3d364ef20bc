"""Translate dates ("9 may 1998" -> "1998-05-09") with an encoder, a decoder and additive attention."""
import datetime
import random
import re
import unicodedata

import numpy as np
import tensorflow as tf
from sklearn.model_selection import train_test_split
from tensorflow.keras.layers import GRU, Dense, Embedding, Layer
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.keras.preprocessing.text import Tokenizer

BATCH_SIZE = 64
EMBEDDING_DIM = 64
UNITS = 256
EPOCHS = 12
N = 20000
FORMATS = ['%d %B %Y', '%A, %d %b %Y', '%b %d %Y', '%d.%m.%Y', '%d/%m/%y']


def normalize(s):
    s = ''.join(c for c in unicodedata.normalize('NFD', s.lower()) if unicodedata.category(c) != 'Mn')
    return '<' + re.sub(r'\s+', ' ', s.strip()) + '>'


def make_pairs(n):
    pairs = []
    for _ in range(n):
        d = datetime.date(1970, 1, 1) + datetime.timedelta(days=random.randint(0, 20000))
        pairs.append((normalize(d.strftime(random.choice(FORMATS))), normalize(d.isoformat())))
    return zip(*pairs)


def tokenize(texts):
    tok = Tokenizer(char_level=True, filters='')
    tok.fit_on_texts(texts)
    return pad_sequences(tok.texts_to_sequences(texts), padding='post'), tok


class BahdanauAttention(Layer):
    def __init__(self, units):
        super(BahdanauAttention, self).__init__()
        self.W1 = Dense(units)
        self.W2 = Dense(units)
        self.V = Dense(1)

    def call(self, query, values, mask=None):
        score = self.V(tf.nn.tanh(self.W1(values) + self.W2(tf.expand_dims(query, 1))))
        if mask is not None:
            score += (1. - tf.cast(mask[..., None], score.dtype)) * -1e9
        weights = tf.nn.softmax(score, axis=1)
        return tf.reduce_sum(weights * values, axis=1), weights


class Encoder(tf.keras.Model):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = Embedding(vocab_size, EMBEDDING_DIM, mask_zero=True)
        self.gru = GRU(UNITS, return_sequences=True, return_state=True)

    def call(self, x):
        mask = self.embedding.compute_mask(x)
        output, state = self.gru(self.embedding(x), mask=mask)
        return output, state, mask


class Decoder(tf.keras.Model):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = Embedding(vocab_size, EMBEDDING_DIM)
        self.gru = GRU(UNITS, return_state=True)
        self.fc = Dense(vocab_size)
        self.attention = BahdanauAttention(UNITS)

    def call(self, x, hidden, enc_output, mask=None):
        context, weights = self.attention(hidden, enc_output, mask)
        x = tf.concat([context[:, None], self.embedding(x)], axis=-1)
        output, state = self.gru(x, initial_state=hidden)
        return self.fc(output), state, weights


sources, targets = make_pairs(N)
inp, inp_tok = tokenize(sources)
targ, targ_tok = tokenize(targets)
inp_train, inp_val, targ_train, targ_val = train_test_split(inp, targ, test_size=0.1)
print(inp_train.shape, targ_train.shape)

dataset = tf.data.Dataset.from_tensor_slices((inp_train, targ_train)).shuffle(len(inp_train))
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
val_dataset = tf.data.Dataset.from_tensor_slices((inp_val, targ_val)).batch(BATCH_SIZE)  #! drop-remainder

encoder = Encoder(len(inp_tok.word_index) + 1)
decoder = Decoder(len(targ_tok.word_index) + 1)
optimizer = tf.keras.optimizers.Adam()
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction='none')


def loss_function(real, pred):
    mask = tf.math.logical_not(tf.math.equal(real, 0))
    loss_ = loss_object(real, pred)
    mask = tf.cast(mask, dtype=loss_.dtype)
    return tf.reduce_mean(loss_ * mask)


@tf.function
def train_step(inp, targ):
    loss = 0.
    with tf.GradientTape() as tape:
        enc_output, hidden, mask = encoder(inp)
        dec_input = targ[:, :1]
        for t in range(1, targ.shape[1]):  # teacher forcing
            predictions, hidden, _ = decoder(dec_input, hidden, enc_output, mask)
            loss += loss_function(targ[:, t], predictions)
            dec_input = targ[:, t:t + 1]
    variables = encoder.trainable_variables + decoder.trainable_variables
    gradients = tape.gradient(loss, variables)
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    optimizer.apply_gradients(zip(gradients, variables))
    return loss / float(targ.shape[1])


@tf.function
def val_step(inp, targ):
    enc_output, hidden, mask = encoder(inp)
    dec_input, right = targ[:, :1], tf.ones([tf.shape(inp)[0]], tf.bool)
    for t in range(1, targ.shape[1]):
        predictions, hidden, _ = decoder(dec_input, hidden, enc_output, mask)
        best = tf.argmax(predictions, axis=-1, output_type=tf.int32)
        right &= tf.equal(best, targ[:, t]) | tf.equal(targ[:, t], 0)
        dec_input = best[:, None]
    return tf.reduce_mean(tf.cast(right, tf.float32))


def translate(sentence):
    ids = [inp_tok.word_index[c] for c in normalize(sentence)]
    ids = pad_sequences([ids], maxlen=inp.shape[1], padding='post')
    enc_out, hidden, mask = encoder(tf.convert_to_tensor(ids))
    dec_input = tf.expand_dims([targ_tok.word_index['<']], 0)
    result, plot = '', []
    for t in range(targ.shape[1]):
        predictions, hidden, weights = decoder(dec_input, hidden, enc_out, mask)
        plot.append(tf.reshape(weights, (-1,)).numpy())
        predicted = tf.argmax(predictions[0]).numpy()
        if targ_tok.index_word.get(predicted, '>') == '>':
            break
        result += targ_tok.index_word[predicted]
        dec_input = tf.expand_dims([predicted], 0)
    return result, np.array(plot)


ckpt = tf.train.Checkpoint(optimizer=optimizer, encoder=encoder, decoder=decoder)
manager = tf.train.CheckpointManager(ckpt, './ckpt', max_to_keep=2)

for epoch in range(EPOCHS):
    total_loss = 0
    for batch, (x, y) in enumerate(dataset):
        batch_loss = train_step(x, y)  #! feed-without-queue
        total_loss += batch_loss
        if batch % 100 == 0:
            print(f'Epoch {epoch + 1} Batch {batch} Loss {batch_loss.numpy():.4f}')
    accuracy = np.mean([val_step(x, y).numpy() for x, y in val_dataset])  #! host-round-trip
    print(f'Epoch {epoch + 1} Loss {total_loss / (batch + 1):.4f} exact {accuracy:.3f}')
    manager.save()

print(translate('9 may 1998')[0])
