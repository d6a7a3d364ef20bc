"""Training loops of small networks of which bytes and cycles are known (tests/data/
profile_numbers.json): recurrent ones, cell by cell, and one of convolutions."""

import tensorflow.compat.v1 as tf
from program_parts import trained_in_loop

KEEP = 0.75  # of what dropout sees
DIM = 128


def _cells(kind, *sizes):
    return [tf.nn.rnn_cell.DropoutWrapper(kind(size, name=f"RNNCell{number}"),
                                          output_keep_prob=KEEP, dtype=tf.float32)
            for number, size in enumerate(sizes)]


def _last_state(x, cells):
    cell = cells[0] if len(cells) == 1 else tf.nn.rnn_cell.MultiRNNCell(cells)
    return tf.nn.dynamic_rnn(cell=cell, inputs=x, dtype=x.dtype)[1]


def _dense(x, units=16):
    return tf.layers.dense(x, units)


def plain_cell():
    return trained_in_loop(lambda x: _dense(_last_state(
        x, _cells(tf.nn.rnn_cell.BasicRNNCell, 2 * DIM))))


def two_plain_cells():
    return trained_in_loop(lambda x: _dense(_last_state(
        x, _cells(tf.nn.rnn_cell.BasicRNNCell, DIM, DIM))[1]))


def two_lstm_cells():
    return trained_in_loop(lambda x: _dense(_last_state(
        x, _cells(tf.nn.rnn_cell.LSTMCell, DIM, 3 * DIM))[1].h), steps=3)


def two_gru_cells():
    return trained_in_loop(lambda x: _dense(_last_state(
        x, _cells(tf.nn.rnn_cell.GRUCell, 2 * DIM, DIM))[1]))


def recurrent_layer():
    def network(x):
        x = tf.keras.layers.SimpleRNN(2 * DIM)(x)
        return tf.keras.layers.Dense(16)(tf.keras.layers.Dropout(1 - KEEP)(x))
    return trained_in_loop(network)


def two_recurrent_layers():
    def network(x):
        x = tf.keras.layers.SimpleRNN(2 * DIM, return_sequences=True)(x)
        x = tf.keras.layers.SimpleRNN(DIM)(tf.keras.layers.Dropout(1 - KEEP)(x))
        return tf.keras.layers.Dense(16)(tf.keras.layers.Dropout(1 - KEEP)(x))
    return trained_in_loop(network)


def convolutions_of_sequence():
    def network(x):
        x = tf.keras.layers.Conv1D(DIM, 4)(x)
        x = tf.keras.layers.MaxPooling1D(2, 1)(x)
        x = tf.keras.layers.Conv1D(DIM, 4)(x)
        x = tf.keras.layers.MaxPooling1D(2, 2)(x)
        for _ in range(2):
            x = tf.keras.layers.Conv1D(DIM, 4)(x)
        return tf.keras.layers.Dense(16)(tf.keras.layers.Flatten()(x))
    return trained_in_loop(network, batch=1, steps=32)


def products_in_loop():
    def network(x):
        x = tf.transpose(x, [1, 0, 2])
        results = tf.TensorArray(x.dtype, size=x.shape[0], element_shape=x.shape[1:],
                                 name="output")
        factor = tf.Variable(initial_value=7.0)

        def body(step, results):
            row = tf.squeeze(tf.slice(x, [step, 0, 0], [1, x.shape[1], x.shape[2]]))
            return step + 1, results.write(step, row * factor)
        results = tf.while_loop(lambda step, _: step < x.shape[0], body,
                                (tf.constant(0, name="time"), results),
                                maximum_iterations=x.shape[0], name="products")[1]
        return tf.reduce_sum(results.stack(), axis=0)
    return trained_in_loop(network, batch=4, steps=32, width=4056)
