"""Loops, branches, nested structures, and recurrent networks made of them."""

import pytest
import tensorflow as tf
from case_values import anything, fixed, indices, normal, uniform
from differential import (FLOATS, NUMBERS, Case, check_all, differential, gradients)


def _sum_of_powers(x, n):
    """A loop with a trip count that the program computes."""
    return tf.while_loop(lambda i, a, p: i < n, lambda i, a, p: (i + 1, a + p, p * x / 2),
                         [0, tf.zeros_like(x), tf.ones_like(x)])[1:]


def _nested(x):
    def outer(i, a):
        inner = tf.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b + tf.cast(j, b.dtype)),
                              [0, a])[1]
        return i + 1, inner / 2
    return tf.while_loop(lambda i, a: i < 5, outer, [0, x])


def _swap(x, y):
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), [0, x, y])


def _untouched(x, y):
    return tf.while_loop(lambda i, a, b: i < 4, lambda i, a, b: (i + 1, a, b + a), [0, x, y])


def _fill(x):
    """A loop that writes rows of a tensor in place."""
    def body(i, t):
        return i + 1, tf.tensor_scatter_nd_update(t, [[i]], [t[i - 1] + x[i]])
    return tf.while_loop(lambda i, t: i < 6, body, [1, x])


def _collatz(x):
    def body(n, steps):
        return tf.where(n % 2 == 0, n // 2, tf.where(n == 1, n, 3 * n + 1)), steps + tf.cast(
            n > 1, tf.int32)
    return tf.while_loop(lambda n, s: tf.reduce_any(n > 1), body, [tf.abs(x) + 1, tf.zeros_like(x)])


def _tensor_array(x):
    array = tf.TensorArray(x.dtype, 5, element_shape=x.shape[1:])
    array = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a.write(i, x[i] * 2)),
                          [0, array])[1]
    return array.stack()


LOOPS = [
    Case("while", _sum_of_powers, [uniform(6), fixed(7, "int32")], FLOATS, "chain"),
    Case("while_no_iteration", _sum_of_powers, [uniform(6), fixed(0, "int32")], FLOATS),
    Case("while_nested", _nested, [normal(5)], FLOATS, "chain"),
    Case("while_swaps", _swap, [anything(5), anything(5)], NUMBERS),
    Case("while_untouched", _untouched, [normal(5), normal(5)], NUMBERS, "chain"),
    Case("while_fills", _fill, [normal(6, 4)], FLOATS + ("int32",), "chain"),
    Case("while_data_dependent", _collatz, [normal(9)], ("int32",)),
    Case("tensor_array", _tensor_array, [normal(5, 3)], FLOATS),
    Case("scan", lambda x: tf.scan(lambda a, b: a * .5 + b, x), [normal(6, 3)], FLOATS, "chain"),
    Case("foldl", lambda x: tf.foldl(lambda a, b: a * .5 + b, x), [normal(6, 3)], FLOATS, "chain"),
    Case("map_fn", lambda x: tf.map_fn(lambda r: r * tf.reduce_sum(r), x), [normal(4, 3)], FLOATS,
         "chain"),
    Case("while_gradients", gradients(lambda x: tf.while_loop(
        lambda i, a: i < 4, lambda i, a: [i + 1, tf.tanh(a * x)], [0, x],
        maximum_iterations=4)[1]), [normal(5)], FLOATS, "chain"),
]


def _cond(x, p):
    return tf.cond(p > 3, lambda: x * 2, lambda: tf.tanh(x))


def _switch(x, i):
    return tf.switch_case(i, [lambda: x + 1, lambda: x * x, lambda: -x])


def _cond_of_tuples(x, p):
    return tf.cond(p > 3, lambda: (x, {"a": x * 2, "b": [x + 1]}),
                   lambda: (x - 1, {"a": x, "b": [x * x]}))


def _cond_in_loop(x):
    def body(i, a):
        return i + 1, tf.cond(i % 2 == 0, lambda: a + 1, lambda: a * 2)
    return tf.while_loop(lambda i, a: i < 5, body, [0, x])


def _asserted(x):
    tf.debugging.assert_less(x, 3.)
    return x + 1


BRANCHES = [
    Case("cond_true", _cond, [normal(5), fixed(4, "int32")], FLOATS, "math"),
    Case("cond_false", _cond, [normal(5), fixed(3, "int32")], FLOATS, "math"),
    Case("switch_first", _switch, [normal(5), fixed(0, "int32")], NUMBERS[:3], "math"),
    Case("switch_last", _switch, [normal(5), fixed(2, "int32")], NUMBERS[:3]),
    Case("switch_outside", _switch, [normal(5), fixed(7, "int32")], NUMBERS[:3]),
    Case("cond_of_tuples", _cond_of_tuples, [normal(5), indices(high=7)], NUMBERS, "math"),
    Case("cond_in_loop", _cond_in_loop, [normal(5)], FLOATS, "chain"),
    Case("cond_gradients", gradients(lambda x, p: _cond(x, p), 0), [normal(5), indices(high=7)],
         FLOATS, "chain"),
    Case("nested_tuples", lambda x, y: ((x, (y, [x + y])), {"k": (y, ())}), [normal(3), normal(3)],
         NUMBERS),
    Case("same_result_twice", lambda x: (x, x, x + 1, x + 1), [normal(3)], NUMBERS),
    Case("constant_results", lambda x: (tf.constant([1, 2, 3]), x, tf.zeros([2])), [normal(3)],
         NUMBERS),
    Case("assert_is_left_out", _asserted, [uniform(3)], ("float32",)),
]


def _lstm_cell(x, h, c, w, b):
    i, j, f, o = tf.split(tf.concat([x, h], 1) @ w + b, 4, 1)
    c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o), c


def _lstm_loop(x, w, b):
    """x is [time, batch, features]; a loop with TensorLists, as Keras and dynamic_rnn make them."""
    units = w.shape[1] // 4
    zeros = tf.zeros([x.shape[1], units], x.dtype)
    steps = int(x.shape[0])
    inputs = tf.TensorArray(x.dtype, steps).unstack(x)
    outputs = tf.TensorArray(x.dtype, steps, element_shape=zeros.shape)

    def body(t, h, c, out):
        h, c = _lstm_cell(inputs.read(t), h, c, w, b)
        return [t + 1, h, c, out.write(t, h)]
    _, h, c, out = tf.while_loop(lambda t, *_: t < steps, body, [0, zeros, zeros, outputs],
                                 maximum_iterations=steps)
    return out.stack(), h, c


def _lstm_unrolled(x, w, b):
    units = w.shape[1] // 4
    h = c = tf.zeros([x.shape[1], units], x.dtype)
    out = []
    for step in tf.unstack(x):
        h, c = _lstm_cell(step, h, c, w, b)
        out.append(h)
    return tf.stack(out), h, c


def _gru(x, w, u, v):
    h = tf.zeros([x.shape[1], u.shape[1]], x.dtype)
    for step in tf.unstack(x):
        both = tf.concat([step, h], 1)
        z, r = tf.split(tf.sigmoid(both @ w), 2, 1)
        h = z * h + (1 - z) * tf.tanh(step @ u + (r * h) @ v)
    return h


_LSTM = [normal(5, 2, 3), normal(7, 16, scale=.5), normal(16, scale=.5)]
RECURRENT = [
    Case("lstm_loop", _lstm_loop, _LSTM, FLOATS, "network"),
    Case("lstm_loop_gradients", gradients(_lstm_loop), _LSTM, FLOATS, "network"),
    Case("lstm_unrolled", _lstm_unrolled, _LSTM, FLOATS, "network"),
    Case("lstm_unrolled_gradients", gradients(_lstm_unrolled), _LSTM, FLOATS, "network"),
    Case("gru_gradients", gradients(_gru), [normal(4, 2, 3), normal(7, 8, scale=.5),
                                            normal(3, 4, scale=.5), normal(4, 4, scale=.5)], FLOATS,
         "network"),
    Case("lstm_time_40", lambda x, w, b: _lstm_loop(x, w, b)[1:],
         [normal(40, 2, 3), normal(7, 16, scale=.5), normal(16, scale=.5)], FLOATS, "network"),
]

test_loops = differential(LOOPS)
test_branches = differential(BRANCHES)
test_recurrent = differential(RECURRENT)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    check_all(LOOPS[::3] + BRANCHES[::3] + RECURRENT[1:2])
