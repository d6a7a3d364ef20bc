"""Recurrent networks, forward: a loop over time that keeps the gates' results for the gradient.

Shapes: inputs x [T, B, I] (time, batch, input), states [B, U], kernel [I + U, gates * U]: rows for
x, then for the state h. Gates stand in Keras's order: input, forget, candidate, output (LSTM) and
update, reset, candidate (GRU). One product before the loop takes all of x. With lengths
(seq_len [B]) a state does not change after its sequence's end, and outputs there are zero.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building

LSTM_CELL, GRU_CELL = "BasicLstmCell", "BasicGruCell"  # what profiles call a step
ACTIVATIONS = ("tanh", "relu", "softmax", "sigmoid", "hard_sigmoid")
RECURRENT_ACTIVATIONS = ("tanh", "softmax", "sigmoid", "hard_sigmoid")

FUNCTIONS = {
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "sigmoid": tf.sigmoid,
    "hard_sigmoid": lambda x: tf.clip_by_value(x * 0.2 + 0.5, 0.0, 1.0),
}


def loop(x, body, state, sequences, widths, reverse=False):
    """Runs state, kept = body(t, state, values) for the T = x.shape[0] steps, backwards if
    `reverse`.

    state      list of tensors
    sequences  list of [T, B, ...]; `values` are their slices at t. For a pair (first, sequence) it
               is the slice before: first where t is 0
    widths     for each tensor [B, width] that body keeps, its width

    Returns (the last state, list of [T, B, width])."""
    count, batch = x.shape.as_list()[:2]
    count = tf.shape(x)[0] if count is None else count
    firsts = [one[0] if isinstance(one, tuple) else None for one in sequences]
    sequences = [one[1] if isinstance(one, tuple) else one for one in sequences]
    arrays = [tf.TensorArray(one.dtype, count, element_shape=one.shape[1:],
                             clear_after_read=False).unstack(one) for one in sequences]
    written = [tf.TensorArray(x.dtype, count, element_shape=[batch, width_]) for width_ in widths]

    def value(array, first, t):
        if first is None:
            return array.read(t)
        return tf.where_v2(t > 0, array.read(tf.maximum(t - 1, 0)), first)

    def step(i, state, written):
        t = count - 1 - i if reverse else i
        values = [value(array, first, t) for array, first in zip(arrays, firsts)]
        state, kept = body(t, state, values)
        return [i + 1, state, [array.write(t, one) for array, one in zip(written, kept)]]

    _, state, written = tf.while_loop(
        lambda i, *_: i < count, step, [tf.constant(0), state, written], parallel_iterations=1,
        return_same_structure=True)
    return state, [one.stack() for one in written]


def width(x):
    """The last dimension."""
    return x.shape.as_list()[-1]


def flat(x):
    """[T, B, W] as [T * B, W]."""
    return tf.reshape(x, [-1, width(x)])


def input_part(x, kernel, bias):
    """What x adds to the gates: [T, B, gates * U]."""
    product = tf.matmul(flat(x), kernel[:width(x)]) + tf.reshape(bias, [-1])
    shape = tf.shape(x)
    result = tf.reshape(product, tf.stack([shape[0], shape[1], width(product)]))
    result.set_shape([*x.shape.as_list()[:2], width(product)])
    return result


def alive(t, lengths):
    """Which sequences are not at their end yet: [B, 1]."""
    return (t < lengths)[:, tf.newaxis]


def choose(condition, value, other):
    """value where the condition holds; value itself without a condition."""
    return value if condition is None else tf.where_v2(condition, value, other)


def lstm(x, h, c, kernel, bias, lengths, activation, recurrent, keep):
    """Returns (outputs [T, B, U], h, c, gates [T, B, 4 U], cells [T, B, U]); the last two None
    unless `keep`. lengths: int32 [B] or None."""
    units = width(h)
    act, rec = FUNCTIONS[activation], FUNCTIONS[recurrent]
    recurrent_kernel = kernel[width(x):]

    def body(t, state, values):
        h, c = state
        with _building.part(f"{LSTM_CELL}/ProcessUnits/Weight"):
            from_h = tf.matmul(h, recurrent_kernel)
        i, f, g, o = tf.split(values[0] + from_h, 4, 1)
        i, f, g, o = rec(i), rec(f), act(g), rec(o)
        new_c = f * c + i * g
        with _building.part(f"{LSTM_CELL}/OutputGate"):
            new_h = o * act(new_c)
        going = None if lengths is None else alive(t, lengths)
        output = choose(going, new_h, tf.zeros_like(h))
        kept = [tf.concat([i, f, g, o], 1), new_c] if keep else []
        return [choose(going, new_h, h), choose(going, new_c, c)], [output, *kept]

    (h, c), (outputs, *kept) = loop(
        x, body, [h, c], [input_part(x, kernel, bias)],
        [units, 4 * units, units] if keep else [units])
    return (outputs, h, c, *(kept or (None, None)))


def gru(x, h, kernel, bias, lengths, scores, activation, recurrent, reset_after, keep):
    """Returns (outputs [T, B, U], h, gates [T, B, 3 U or, with reset_after, 4 U] or None).

    bias is [3, U]; with reset_after [3, 2, U], for x and for h. lengths: int32 [B] or None.
    scores: attention [T, B] or None; each scales its step's update gate by 1 - score."""
    units = width(h)
    act, rec = FUNCTIONS[activation], FUNCTIONS[recurrent]
    recurrent_kernel = kernel[width(x):]
    for_gates, for_candidate = recurrent_kernel[:, :2 * units], recurrent_kernel[:, 2 * units:]
    bias_x = bias[:, 0] if reset_after else bias
    bias_h = tf.reshape(bias[:, 1], [-1]) if reset_after else None

    def body(t, state, values):
        h, from_x = state[0], values[0]
        weight = _building.part(f"{GRU_CELL}/ProcessUnits/Weight")
        if reset_after:
            with weight:
                product = tf.matmul(h, recurrent_kernel)
            from_h = product + bias_h
            gates, inner = from_x[:, :2 * units] + from_h[:, :2 * units], from_h[:, 2 * units:]
        else:
            with weight:
                product = tf.matmul(h, for_gates)
            gates, inner = from_x[:, :2 * units] + product, None
        z, r = (rec(one) for one in tf.split(gates, 2, 1))
        if reset_after:
            from_state = r * inner
        else:
            reset = r * h
            with _building.part(f"{GRU_CELL}/ProcessUnits/Weight"):
                from_state = tf.matmul(reset, for_candidate)
        candidate = act(from_x[:, 2 * units:] + from_state)
        update = z if scores is None else z * (1 - values[1][:, tf.newaxis])
        new_h = update * h + (1 - update) * candidate
        going = None if lengths is None else alive(t, lengths)
        output = choose(going, new_h, tf.zeros_like(h))
        kept = [tf.concat([z, r, candidate] + ([inner] if reset_after else []), 1)] if keep else []
        return [choose(going, new_h, h)], [output, *kept]

    sequences = [input_part(x, kernel, bias_x)] + ([] if scores is None else [scores])
    widths = [units, 4 * units if reset_after else 3 * units]
    (h,), (outputs, *kept) = loop(x, body, [h], sequences, widths if keep else [units])
    return (outputs, h, kept[0] if kept else None)
