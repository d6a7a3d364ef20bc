"""`tf.contrib.rnn`: recurrent cells and the functions that unroll them."""

import sys

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below

_CELLS = ("BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell",
          "LSTMCell", "LSTMStateTuple", "MultiRNNCell", "RNNCell", "ResidualWrapper")
_FUNCTIONS = {"static_rnn": "static_rnn", "static_state_saving_rnn": "static_state_saving_rnn",
              "static_bidirectional_rnn": "static_bidirectional_rnn"}
_FILES = ("core_rnn", "core_rnn_cell", "lstm_ops", "rnn", "rnn_cell")  # of the original


def __getattr__(name):
    if name in _CELLS:
        return getattr(tf.nn.rnn_cell, name)
    if name in _FUNCTIONS:
        return getattr(tf.nn, _FUNCTIONS[name])
    if name in _FILES:
        return sys.modules[__name__]
    if name in _MADE:
        globals()[name] = made = _MADE[name]()
        return made
    raise missing.attribute("rnn", name)


def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                            initial_states_bw=None, dtype=None, sequence_length=None, scope=None):
    """Layers of static_bidirectional_rnn(), each on the outputs of both directions below.

    `inputs`: a list of float32 or float16 [batch, size], one a time step. Returns (outputs, a list
    like it; states of the forward cells; states of the backward cells). Raises ValueError unless
    there is one cell a layer in both directions.
    """
    pairs = _pairs(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw, start_fw, start_bw) in enumerate(pairs):
            with tf.variable_scope(f"cell_{i}"):
                inputs, state_fw, state_bw = tf.nn.static_bidirectional_rnn(
                    fw, bw, inputs, initial_state_fw=start_fw, initial_state_bw=start_bw,
                    sequence_length=sequence_length, dtype=dtype)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_dynamic_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                                    initial_states_bw=None, dtype=None, sequence_length=None,
                                    parallel_iterations=None, time_major=False, scope=None,
                                    swap_memory=False):
    """As stack_bidirectional_rnn(), with bidirectional_dynamic_rnn(); `inputs` [batch, time, size],
    or with the time first."""
    pairs = _pairs(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw, start_fw, start_bw) in enumerate(pairs):
            with tf.variable_scope(f"cell_{i}"):
                outputs, (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
                    fw, bw, inputs, initial_state_fw=start_fw, initial_state_bw=start_bw,
                    sequence_length=sequence_length, dtype=dtype, swap_memory=swap_memory,
                    parallel_iterations=parallel_iterations, time_major=time_major)
                inputs = tf.concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def _pairs(cells_fw, cells_bw, states_fw, states_bw):
    for cells, states, name in ((cells_fw, states_fw, "fw"), (cells_bw, states_bw, "bw")):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"cells_{name} must be a list of cells, but it is {cells!r}.")
        if states is not None and (not isinstance(states, list) or len(states) != len(cells)):
            raise ValueError(f"initial_states_{name} must be a list of {len(cells)} states.")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"There are {len(cells_fw)} cells forwards, but {len(cells_bw)} "
                         "backwards.")
    none = [None] * len(cells_fw)
    return zip(cells_fw, cells_bw, states_fw or none, states_bw or none)


def _normalized(x, gain, shift, name):
    """`x` normalized along its last dimension, with variables `name/gamma` and `name/beta` that
    begin as gain and shift."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    shape = [x.shape[-1]]
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.constant_initializer(gain))
        beta = tf.get_variable("beta", shape, x.dtype, tf.constant_initializer(shift))
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


# Classes are made when they are first asked for: the class of a cell loads Keras.

def _layer_norm_lstm():
    class LayerNormBasicLSTMCell(tf.nn.rnn_cell.RNNCell):
        """An LSTM cell with its gates and its state normalized, and dropout of the candidate.

        Gate order i, j, f, o. Variables: `kernel` [inputs + units, 4 * units], `gamma` and
        `beta` of each of input, transform, forget, output, state, or `bias` without
        normalization.
        """

        def __init__(self, num_units, forget_bias=1.0, input_size=None, activation=tf.tanh,
                     layer_norm=True, norm_gain=1.0, norm_shift=0.0, dropout_keep_prob=1.0,
                     dropout_prob_seed=None, reuse=None):
            del input_size
            super().__init__(_reuse=reuse)
            self._num_units = num_units
            self._forget_bias = forget_bias
            self._activation = activation
            self._layer_norm = layer_norm
            self._gain = norm_gain
            self._shift = norm_shift
            self._keep = dropout_keep_prob
            self._seed = dropout_prob_seed

        @property
        def state_size(self):
            return tf.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

        @property
        def output_size(self):
            return self._num_units

        def _norm(self, x, name):
            return _normalized(x, self._gain, self._shift, name)

        def call(self, inputs, state):
            """One step: (output, new state)."""
            c, h = state
            args = tf.concat([inputs, h], 1)
            gates = tf.matmul(args, tf.get_variable(
                "kernel", [args.shape[-1], 4 * self._num_units], args.dtype))
            if not self._layer_norm:
                gates += tf.get_variable("bias", [4 * self._num_units], args.dtype,
                                         tf.zeros_initializer())
            i, j, f, o = tf.split(gates, 4, 1)
            if self._layer_norm:
                i, j, f, o = (self._norm(x, name) for x, name in (
                    (i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
            j = self._activation(j)
            if not isinstance(self._keep, float) or self._keep < 1:
                j = tf.nn.dropout(j, rate=1 - self._keep, seed=self._seed)
            c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * j
            if self._layer_norm:
                c = self._norm(c, "state")
            h = self._activation(c) * tf.sigmoid(o)
            return h, tf.nn.rnn_cell.LSTMStateTuple(c, h)

    return LayerNormBasicLSTMCell


def _lstm_block():
    class LSTMBlockCell(tf.nn.rnn_cell.LSTMCell):
        """LSTMCell under the name of its fused form: the same variables and values."""

        def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False,
                     dtype=None, reuse=None, name="lstm_cell"):
            super().__init__(num_units, use_peepholes=use_peephole, forget_bias=forget_bias,
                             cell_clip=cell_clip if cell_clip and cell_clip > 0 else None,
                             dtype=dtype, reuse=reuse, name=name)

    return LSTMBlockCell


def _gru_block():
    class GRUBlockCellV2(tf.nn.rnn_cell.GRUCell):
        """GRUCell under the name of its fused form: the same variables and values."""

        def __init__(self, num_units=None, cell_size=None, reuse=None, name="gru_cell"):
            super().__init__(num_units if num_units is not None else cell_size, reuse=reuse,
                             name=name)

    return GRUBlockCellV2


_MADE = {"LayerNormBasicLSTMCell": _layer_norm_lstm, "LSTMBlockCell": _lstm_block,
         "GRUBlockCellV2": _gru_block}
