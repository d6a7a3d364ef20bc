"""Reductions, cumulative sums, sorting."""

import numpy as np
import pytest
import tensorflow as tf
from case_values import anything, fixed, indices, normal, uniform
from differential import (FLOATS, INTS, NUMBERS, Case, check_all, differential, gradients)

XLA_NAN = "XLA's CPU maximum and minimum lose NaNs; HLO's definition and TensorFlow keep them"
WITH_NAN = [lambda rng, dtype: np.where(rng.random((5, 7)) < .2, np.nan,
                                        rng.standard_normal((5, 7))).astype(dtype)]
AXES = [("all", None), ("rows", 0), ("columns", 1), ("middle", (0, 2)), ("last", -1), ("none", ())]


def _over(op, axis, keep=False):
    return lambda x: op(x, axis=axis, keepdims=keep)


REDUCE = [
    Case(f"sum_{name}", _over(tf.reduce_sum, axis), [normal(5, 6, 7)],
         FLOATS + ("int32", "int64"), "sum") for name, axis in AXES
] + [
    Case(f"max_{name}", _over(tf.reduce_max, axis), [anything(5, 6, 7)], NUMBERS)
    for name, axis in AXES
] + [
    Case("sum_keep", _over(tf.reduce_sum, 1, True), [normal(5, 6, 7)], FLOATS, "sum"),
    Case("sum_overflows", _over(tf.reduce_sum, 1), [anything(4, 30)], INTS),
    Case("sum_large", _over(tf.reduce_sum, None), [normal(300, 401)], ("float32",), "sum"),
    Case("sum_large_rows", _over(tf.reduce_sum, 0), [normal(300, 401)], FLOATS, "sum"),
    Case("sum_large_columns", _over(tf.reduce_sum, 1), [normal(300, 401)], FLOATS, "sum"),
    Case("sum_infinite", _over(tf.reduce_sum, 0), [fixed([[np.inf, np.inf, np.nan, 1],
                                                          [1, -np.inf, 1, 2]])], FLOATS),
    Case("mean", _over(tf.reduce_mean, (0, 1)), [normal(5, 6, 7)], FLOATS, "sum"),
    Case("mean_integer", _over(tf.reduce_mean, 1), [normal(5, 6)], ("int32",)),
    Case("variance", _over(tf.math.reduce_variance, 1), [normal(5, 60)], FLOATS, "norm"),
    Case("std", _over(tf.math.reduce_std, 0), [normal(50, 6)], FLOATS, "norm"),
    Case("moments", lambda x: tf.nn.moments(x, [0, 1]), [normal(5, 6, 7)], FLOATS, "norm"),
    Case("norm", lambda x: tf.norm(x, axis=1), [normal(5, 60)], FLOATS, "sum"),
    Case("l2_loss", tf.nn.l2_loss, [normal(5, 60)], FLOATS, "sum"),
    Case("product", _over(tf.reduce_prod, 1), [uniform(5, 9, low=.5, high=1.5)],
         FLOATS, "product"),
    Case("product_integer", _over(tf.reduce_prod, 1), [normal(5, 9)], INTS),
    Case("min", _over(tf.reduce_min, 1), [anything(5, 60)], NUMBERS),
    Case("min_all", _over(tf.reduce_min, None), [anything(5, 60)], NUMBERS),
    Case("max_nan", lambda x: (tf.reduce_max(x, 0), tf.reduce_max(x, 1), tf.reduce_min(x, 1)),
         WITH_NAN, FLOATS, but={"xla": XLA_NAN, "tf": "Eigen's reductions may lose NaNs"}),
    Case("max_infinite", _over(tf.reduce_max, 0), [fixed([[-np.inf, np.inf], [-np.inf, 2]])]),
    Case("any", lambda x: (tf.reduce_any(x), tf.reduce_any(x, 0), tf.reduce_any(x, 1)),
         [fixed([[0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]])], ("bool",)),
    Case("all", lambda x: (tf.reduce_all(x), tf.reduce_all(x, 0), tf.reduce_all(x, 1)),
         [fixed([[1, 0, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1]])], ("bool",)),
    Case("logsumexp", lambda x: (tf.reduce_logsumexp(x, 1), tf.reduce_logsumexp(x)),
         [normal(5, 9, scale=5)], FLOATS, "chain"),
    Case("zero_size", lambda x: (tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_prod(x, 0),
                                 tf.reduce_max(x, 0)), [normal(0, 4)], FLOATS + ("int32",)),
    Case("zero_size_result", lambda x: tf.reduce_sum(x, 1), [normal(0, 4)], FLOATS),
    Case("one_element", lambda x: (tf.reduce_sum(x), tf.reduce_max(x)), [normal(1, 1)], FLOATS),
    Case("scalar", lambda x: tf.reduce_sum(x), [normal()], FLOATS),
    Case("gradients", gradients(lambda x: (tf.reduce_sum(x, 1), tf.reduce_mean(x, 0),
                                           tf.reduce_max(x, 1), tf.reduce_prod(x, 1))),
         [uniform(5, 6, low=.5, high=1.5)], FLOATS, "chain"),
    Case("count_nonzero", lambda x: tf.math.count_nonzero(x, 1),
         [normal(5, 9)], ("float32", "int32")),
]

ARG = [
    Case("argmax", lambda x: (tf.argmax(x, 0), tf.argmax(x, 1, output_type=tf.int32)),
         [anything(7, 9)], NUMBERS),
    Case("argmin", lambda x: (tf.argmin(x, 0), tf.argmin(x, 1, output_type=tf.int32)),
         [anything(7, 9)], NUMBERS),
    Case("argmax_ties", lambda x: (tf.argmax(x, 0), tf.argmin(x, 1)), [normal(9, 11)], INTS),
    Case("argmax_long", lambda x: tf.argmax(x, -1), [normal(3, 1001)], FLOATS),
    Case("argmax_middle", lambda x: tf.argmax(x, 1), [normal(3, 5, 4)], FLOATS),
]

CUMULATIVE = [
    Case("cumsum", lambda x: (tf.cumsum(x, 0), tf.cumsum(x, 1)), [normal(5, 9)],
         FLOATS + ("int32", "int64"), "chain"),
    Case("cumsum_exclusive", lambda x: tf.cumsum(x, 1, exclusive=True), [normal(5, 9)],
         FLOATS + ("int32",), "chain"),
    Case("cumsum_reverse", lambda x: tf.cumsum(x, 0, reverse=True),
         [normal(5, 9)], FLOATS, "chain"),
    Case("cumsum_gradient", gradients(lambda x: tf.cumsum(x, 1)), [normal(5, 9)], FLOATS, "chain"),
    Case("cumsum_overflows", lambda x: tf.cumsum(x, 0), [anything(40)], ("int32", "int64")),
    Case("cumprod", lambda x: tf.math.cumprod(x, 1), [uniform(5, 9, low=.5, high=1.5)], FLOATS,
         "product"),
    Case("cumulative_logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 0), [normal(9, 3)],
         FLOATS, "chain"),
]

SORT = [
    Case("sort", lambda x: (tf.sort(x, 0), tf.sort(x, 1)), [anything(7, 33)], NUMBERS),
    Case("sort_descending", lambda x: tf.sort(x, direction="DESCENDING"), [anything(7, 33)],
         FLOATS + ("int32", "int64")),
    Case("argsort", lambda x: tf.argsort(x, 1, stable=True), [normal(7, 33)], NUMBERS),
    Case("argsort_descending", lambda x: tf.argsort(x, 0, "DESCENDING", stable=True),
         [normal(33, 7)], FLOATS + ("int32", "int64")),
    Case("sort_long", lambda x: (tf.sort(x), tf.argsort(x, stable=True)), [anything(5000)],
         FLOATS + ("int32",)),
    Case("sort_infinite", tf.sort, [fixed([3, np.inf, -1, -np.inf, 2, np.inf])], FLOATS),
    Case("top_k", lambda x: tf.math.top_k(x, 5), [anything(4, 33)], NUMBERS),
    Case("top_k_ties", lambda x: tf.math.top_k(x, 9), [normal(4, 33)], INTS),
    Case("top_k_all", lambda x: tf.math.top_k(x, 8), [normal(8)], FLOATS),
    Case("top_k_gradient", gradients(lambda x: tf.math.top_k(x, 3)[0]), [normal(4, 9)], FLOATS),
    Case("in_top_k", lambda t, x: tf.math.in_top_k(t, x, 3), [indices(6, high=10), normal(6, 10)],
         ("float32",)),
    Case("sort_zero_size", lambda x: (tf.sort(x), tf.argsort(x)), [normal(3, 0)], FLOATS),
]

test_reduce = differential(REDUCE)
test_arg = differential(ARG)
test_cumulative = differential(CUMULATIVE)
test_sort = differential(SORT)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    check_all(REDUCE[::5] + ARG[:2] + CUMULATIVE[:2] + SORT[:2])
