"""Gradients of recurrent networks: a loop backwards over time, over what the gates gave.

Names and shapes are those of _rnn.py. The loops give the gradients of what goes into the gates'
activations; the weights' gradients are one product each, after the loop.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, _rnn

# Gradients through an activation from what it gave: (y, dy) -> dx.
DERIVATIVES = {
    "tanh": lambda y, dy: dy * (1 - y * y),
    "relu": lambda y, dy: tf.where_v2(y > 0, dy, tf.zeros_like(dy)),
    "softmax": lambda y, dy: y * (dy - tf.reduce_sum(dy * y, -1, keepdims=True)),
    "sigmoid": lambda y, dy: dy * y * (1 - y),
    "hard_sigmoid": lambda y, dy: tf.where_v2(tf.logical_and(y > 0, y < 1), dy * 0.2,
                                              tf.zeros_like(dy)),
}


def refuse(kind):
    """The error for the gradient of a network that was built with training=False."""
    return ValueError(f"To use {kind} in gradients, is_training must be set to True.")


def _before(first, sequence):
    """The values one step earlier: [T, B, W]."""
    return tf.concat([first[tf.newaxis], sequence[:-1]], 0)


def _weights_gradient(rows, d_gates):
    return tf.matmul(_rnn.flat(rows), _rnn.flat(d_gates), transpose_a=True)


def _inputs_gradient(x, kernel, d_gates):
    return tf.reshape(tf.matmul(_rnn.flat(d_gates), kernel[:_rnn.width(x)], transpose_b=True),
                      tf.shape(x))


def lstm_grad(x, h, c, kernel, bias, lengths, outputs, gates, cells, d_outputs, d_h, d_c,
              activation, recurrent):
    """Gradients for (x, h, c, kernel, bias)."""
    units = _rnn.width(h)
    act, d_act = _rnn.FUNCTIONS[activation], DERIVATIVES[activation]
    d_rec = DERIVATIVES[recurrent]
    recurrent_kernel = kernel[_rnn.width(x):]

    def body(t, state, values):
        d_h_in, d_c_in = state
        gates, cell, cell_before, d_output = values
        i, f, g, o = tf.split(gates, 4, 1)
        out = act(cell)
        d_h = d_h_in + d_output
        with _building.part(f"{_rnn.LSTM_CELL}/MulOGate"):
            d_out = d_h * o
        d_c = d_c_in + d_act(out, d_out)
        d_gates = tf.concat([d_rec(i, d_c * g), d_rec(f, d_c * cell_before), d_act(g, d_c * i),
                             d_rec(o, d_h * out)], 1)
        d_c = d_c * f
        going = None if lengths is None else _rnn.alive(t, lengths)
        d_gates = _rnn.choose(going, d_gates, tf.zeros_like(d_gates))
        d_h = tf.matmul(d_gates, recurrent_kernel, transpose_b=True)
        return [_rnn.choose(going, d_h, d_h_in), _rnn.choose(going, d_c, d_c_in)], [d_gates]

    (d_h, d_c), (d_gates,) = _rnn.loop(
        x, body, [d_h, d_c], [gates, cells, (c, cells), d_outputs], [4 * units],
        reverse=True)
    d_kernel = tf.concat([_weights_gradient(x, d_gates),
                          _weights_gradient(_before(h, outputs), d_gates)], 0)
    return (_inputs_gradient(x, kernel, d_gates), d_h, d_c, d_kernel,
            tf.reshape(tf.reduce_sum(d_gates, [0, 1]), tf.shape(bias)))


def gru_grad(x, h, kernel, bias, lengths, scores, outputs, gates, d_outputs, d_h, activation,
             recurrent, reset_after):
    """Gradients for (x, h, kernel, bias, scores); the last None without scores."""
    units = _rnn.width(h)
    d_act, d_rec = DERIVATIVES[activation], DERIVATIVES[recurrent]
    recurrent_kernel = kernel[_rnn.width(x):]
    for_gates, for_candidate = recurrent_kernel[:, :2 * units], recurrent_kernel[:, 2 * units:]

    def body(t, state, values):
        d_h_in = state[0]
        gates, h, d_output = values[:3]
        z, r, candidate = (gates[:, n * units:(n + 1) * units] for n in range(3))
        keep = 1 if scores is None else 1 - values[3][:, tf.newaxis]
        update = z * keep
        d_h_out = d_h_in + d_output
        d_update = d_h_out * (h - candidate)
        d_candidate = d_act(candidate, d_h_out * (1 - update))
        if reset_after:
            inner = gates[:, 3 * units:]
            d_reset, d_inner = d_candidate * inner, d_candidate * r
        else:
            d_product = tf.matmul(d_candidate, for_candidate, transpose_b=True)
            d_reset = d_product * h
        d_pair = tf.concat([d_rec(z, d_update * keep), d_rec(r, d_reset)], 1)
        with _building.part(f"{_rnn.GRU_CELL}/MulOGate"):
            d_h = d_h_out * update
        if reset_after:
            d_h += tf.matmul(tf.concat([d_pair, d_inner], 1), recurrent_kernel, transpose_b=True)
        else:
            d_h += tf.matmul(d_pair, for_gates, transpose_b=True) + d_product * r
        kept = [tf.concat([d_pair, d_candidate], 1)]
        if scores is not None:
            kept.append(tf.reduce_sum(-d_update * z, 1, keepdims=True))
        going = None if lengths is None else _rnn.alive(t, lengths)
        kept = [_rnn.choose(going, one, tf.zeros_like(one)) for one in kept]
        return [_rnn.choose(going, d_h, d_h_in)], kept

    sequences = [gates, (h, outputs), d_outputs] + ([] if scores is None else [scores])
    (d_h,), (d_gates, *d_scores) = _rnn.loop(
        x, body, [d_h], sequences, [3 * units] + ([] if scores is None else [1]), reverse=True)

    d_kernel, d_bias = _gru_weights(x, _before(h, outputs), gates, d_gates, units, reset_after)
    return (_inputs_gradient(x, kernel, d_gates), d_h, d_kernel, tf.reshape(d_bias, tf.shape(bias)),
            tf.squeeze(d_scores[0], 2) if d_scores else None)


def _gru_weights(x, before, gates, d_gates, units, reset_after):
    d_pair, d_candidate = d_gates[:, :, :2 * units], d_gates[:, :, 2 * units:]
    reset = gates[:, :, units:2 * units]
    d_bias = tf.reshape(tf.reduce_sum(d_gates, [0, 1]), [3, units])
    if reset_after:
        d_inner = tf.concat([d_pair, d_candidate * reset], 2)
        d_recurrent = _weights_gradient(before, d_inner)
        of_h = tf.reshape(tf.reduce_sum(d_inner, [0, 1]), [3, units])
        d_bias = tf.stack([d_bias, of_h], 1)
    else:
        d_recurrent = tf.concat([_weights_gradient(before, d_pair),
                                 _weights_gradient(before * reset, d_candidate)], 1)
    return tf.concat([_weights_gradient(x, d_gates), d_recurrent], 0), d_bias
