"""What the original computes in float32 between halves (src/passes/halves.c): with fast and with
reference kernels, next to numpy."""

import numpy as np
import pytest
import tensorflow as tf
from differential import lower, run_ours

H, F = np.float16, np.float32


def halves(*values):
    return np.array(values, H)


LARGE = halves(256, 0, -256, 0)  # squares are 65536, more than a half can hold
Y = halves(60000, 1000, 0.1, -3)
SMALL = F(3e-8)  # rounded to half it is twice as much

CASES = {
    "mean_of_squares": (lambda x: tf.reduce_mean(tf.square(x)), [LARGE], H(32768)),
    "mean_of_powers": (lambda x: tf.reduce_mean(x ** 2), [LARGE], H(32768)),
    "sum_of_squares_in_float": (
        lambda x: tf.reduce_sum(tf.cast(tf.square(x), tf.float32)), [LARGE], F(131072)),
    "other_readers_of_squares": (
        lambda x: (tf.square(x), tf.reduce_mean(tf.square(x))), [LARGE],
        (halves(np.inf, 0, np.inf, 0), H(32768))),
    "sum_in_float": (lambda x: tf.cast(tf.reduce_sum(x), tf.float32),
                     [halves(60000, 60000, 60000, 60000, 8)], F(240008)),
    "there_and_back": (lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32),
                       [np.array([1e5, 1.0001], F)], np.array([1e5, 1.0001], F)),
    "back_and_there": (lambda x: tf.cast(tf.cast(x, tf.float32), tf.float16), [Y], Y),
    "cast_scale": (lambda x, y, s: x + tf.cast(s, tf.float16) * y, [halves(0, 0, 0, 0), Y, SMALL],
                   (SMALL * Y.astype(F)).astype(H)),
    "cast_scales": (lambda x, y, s: tf.cast(s, tf.float16) * x + y * tf.cast(s, tf.float16),
                    [Y, Y, SMALL], (2 * SMALL * Y.astype(F)).astype(H)),
    "cast_scale_subtracted": (
        lambda x, y, s: x - tf.cast(s, tf.float16) * y, [halves(0, 0, 0, 0), Y, SMALL],
        (-F(H(SMALL)) * Y.astype(F)).astype(H)),
    "product_too_large": (lambda x, y, s: x - s * y, [Y, Y, H(2)], -Y),
    "constant_scale": (lambda x, y: x - 2 * y, [Y, Y], -Y),
    "two_scales": (lambda x, y, s: 3 * x - s * y, [Y, Y, H(2)], Y),
    "scaled_minus": (lambda x, y: 2 * x - y, [Y, Y], Y),
}


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_float_inside(name, reference):
    function, inputs, expected = CASES[name]
    hlo, _ = lower(function, inputs)
    found = run_ours(hlo, inputs, reference=reference)
    for got, want in zip(found, expected if isinstance(expected, tuple) else (expected,)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
