"""Instructions that work element by element: every pair of edge values, and ordinary ones."""

import numpy as np
import pytest
import tensorflow as tf
from case_values import (anything, denormals, edges, edges_left, edges_right, fixed, floats,
                         indices, normal, uniform)
from differential import ALL, FLOATS, INTS, NUMBERS, Case, check_all, differential

SIGNED = FLOATS + ("int32", "int8", "int64")
EDGES = [edges]
PAIRS = [edges_left, edges_right]
BY_ZERO = "TensorFlow refuses to divide integers by zero"
XLA_NAN = "XLA's CPU maximum and minimum lose NaNs; HLO's definition and TensorFlow keep them"

UNARY = [
    Case("abs", tf.abs, EDGES, SIGNED),
    Case("negative", tf.negative, EDGES, SIGNED),
    Case("sign", tf.sign, EDGES, SIGNED),
    Case("square", tf.square, EDGES, SIGNED),
    Case("ceil", tf.math.ceil, EDGES),
    Case("floor", tf.floor, EDGES),
    Case("round", tf.round, EDGES),
    Case("rint", tf.math.rint, EDGES, ("float32",)),
    Case("is_finite", tf.math.is_finite, EDGES),
    Case("is_nan", tf.math.is_nan, EDGES),
    Case("is_inf", tf.math.is_inf, EDGES),
    Case("sqrt", tf.sqrt, EDGES, bound="math"),
    Case("rsqrt", tf.math.rsqrt, EDGES, bound="math"),
    Case("reciprocal", tf.math.reciprocal, EDGES, bound="math"),
    Case("exp", tf.exp, EDGES, bound="math"),
    Case("expm1", tf.math.expm1, EDGES, bound="math"),
    Case("log", tf.math.log, EDGES, bound="math"),
    Case("log1p", tf.math.log1p, EDGES, bound="math"),
    Case("tanh", tf.tanh, EDGES, bound="math"),
    Case("sigmoid", tf.sigmoid, EDGES, ("float32",), "math"),
    Case("sigmoid_halves", tf.sigmoid, EDGES, ("float16",), "formula"),
    Case("sin", tf.sin, [uniform(200, low=-30, high=30)], bound="math"),
    Case("cos", tf.cos, [uniform(200, low=-30, high=30)], bound="math"),
    Case("tan", tf.tan, [uniform(200, low=-1.4, high=1.4)], bound="math"),
    Case("atan", tf.atan, EDGES, bound="math"),
    Case("asin", tf.asin, [uniform(200)], bound="formula"),
    Case("acos", tf.acos, [uniform(200)], bound="formula"),
    Case("sinh", tf.sinh, [uniform(200, low=-9, high=9)], bound="formula"),
    Case("cosh", tf.cosh, [uniform(200, low=-9, high=9)], bound="formula"),
    Case("asinh", tf.asinh, [uniform(200, low=-9, high=9)], bound="formula"),
    Case("acosh", tf.acosh, [uniform(200, low=1, high=9)], bound="formula"),
    Case("atanh", tf.atanh, [uniform(200, low=-.99, high=.99)], bound="formula"),
    Case("erf", tf.math.erf, EDGES, bound="math", but={"xla": XLA_NAN}),
    Case("erfc", tf.math.erfc, [uniform(200, low=-4, high=4)], bound="math"),
    Case("lgamma", tf.math.lgamma, [uniform(200, low=-9.3, high=20)], bound="gamma"),
    Case("digamma", tf.math.digamma, [uniform(200, low=.1, high=20)], bound="gamma"),
    Case("softplus", tf.math.softplus, EDGES, bound="math"),
    Case("softsign", tf.nn.softsign, [uniform(200, low=-30, high=30)], bound="formula"),
    Case("relu", tf.nn.relu, [anything(300)], NUMBERS),
    Case("relu6", tf.nn.relu6, [anything(300)], NUMBERS),
    Case("leaky_relu", tf.nn.leaky_relu, [anything(300)]),
    Case("elu", tf.nn.elu, [normal(300, scale=3)], bound="chain"),
    Case("selu", tf.nn.selu, [normal(300, scale=3)], bound="chain"),
    Case("gelu", lambda x: tf.nn.gelu(x, approximate=False), [anything(300)], bound="chain"),
    Case("gelu_tanh", lambda x: tf.nn.gelu(x, approximate=True), [anything(300)], bound="chain"),
    Case("silu", tf.nn.silu, [anything(300)], bound="chain"),
    Case("logical_not", tf.logical_not, EDGES, ("bool",)),
    Case("invert", tf.bitwise.invert, EDGES, INTS),
    Case("population_count", lambda x: tf.raw_ops.PopulationCount(x=x), EDGES, INTS),
    Case("identity", tf.identity, EDGES, ALL),
    Case("clip", lambda x: tf.clip_by_value(x, np.array(1, x.dtype.as_numpy_dtype),
                                            np.array(3, x.dtype.as_numpy_dtype)),
         [anything(300)], NUMBERS),
    Case("clip_by_norm", lambda x: tf.clip_by_norm(x, 2.0), [normal(6, 7)], bound="norm"),
]

BINARY = [
    Case("add", tf.add, PAIRS, NUMBERS),
    Case("subtract", tf.subtract, PAIRS, NUMBERS),
    Case("multiply", tf.multiply, PAIRS, NUMBERS),
    Case("divide", tf.divide, PAIRS, FLOATS, "math"),
    Case("div_no_nan", tf.math.divide_no_nan, PAIRS, FLOATS, "math"),
    Case("multiply_no_nan", tf.math.multiply_no_nan, PAIRS, FLOATS, "math"),
    Case("integer_divide", lambda x, y: tf.raw_ops.Div(x=x, y=y), PAIRS, INTS,
         but={"tf": BY_ZERO}),
    Case("integer_floordiv", tf.math.floordiv, PAIRS, INTS, but={"tf": BY_ZERO}),
    Case("integer_floormod", tf.math.floormod, PAIRS, INTS, but={"tf": BY_ZERO}),
    Case("truncatemod", tf.truncatemod, [normal(300), fixed([3, 5, 2] * 100)],
         ("float32", "int32", "int64")),
    Case("floordiv", tf.math.floordiv, [normal(300, scale=9), uniform(300, low=1, high=3)], FLOATS),
    Case("floormod", tf.math.floormod, [normal(300, scale=9), uniform(300, low=1, high=3)], FLOATS,
         "chain"),
    Case("maximum", tf.maximum, PAIRS, NUMBERS, but={"xla": XLA_NAN}),
    Case("minimum", tf.minimum, PAIRS, NUMBERS, but={"xla": XLA_NAN}),
    Case("squared_difference", tf.math.squared_difference, [normal(300), normal(300)],
         FLOATS + ("int32", "int64"), "math"),
    Case("pow", tf.pow, [uniform(300, low=.05, high=9), uniform(300, low=-3, high=3)],
         FLOATS, "math"),
    Case("pow_edges", tf.pow, PAIRS, ("float32",), "math"),
    Case("pow_integer", tf.pow, [normal(300), indices(300, high=3)], ("int32",)),
    Case("atan2", tf.atan2, PAIRS, FLOATS, "math"),
    Case("xlogy", tf.math.xlogy, PAIRS, FLOATS, "math"),
    Case("xlog1py", tf.math.xlog1py, [uniform(200), uniform(200, low=-.9)], FLOATS, "formula"),
    Case("xdivy", tf.math.xdivy, PAIRS, FLOATS, "math"),
    Case("equal", tf.equal, PAIRS, ALL),
    Case("not_equal", tf.not_equal, PAIRS, ALL),
    Case("less", tf.less, PAIRS, NUMBERS),
    Case("less_equal", tf.less_equal, PAIRS, NUMBERS),
    Case("greater", tf.greater, PAIRS, NUMBERS),
    Case("greater_equal", tf.greater_equal, PAIRS, NUMBERS),
    Case("logical_and", tf.logical_and, PAIRS, ("bool",)),
    Case("logical_or", tf.logical_or, PAIRS, ("bool",)),
    Case("logical_xor", tf.math.logical_xor, PAIRS, ("bool",)),
    Case("bitwise_and", tf.bitwise.bitwise_and, PAIRS, INTS),
    Case("bitwise_or", tf.bitwise.bitwise_or, PAIRS, INTS),
    Case("bitwise_xor", tf.bitwise.bitwise_xor, PAIRS, INTS),
    Case("left_shift", lambda x, n: tf.bitwise.left_shift(x, tf.cast(n, x.dtype)),
         [anything(300), indices(300, high=7)], INTS),
    Case("right_shift", lambda x, n: tf.bitwise.right_shift(x, tf.cast(n, x.dtype)),
         [anything(300), indices(300, high=7)], INTS),
    Case("shift_too_far", lambda x, n: (tf.bitwise.left_shift(x, n), tf.bitwise.right_shift(x, n)),
         [anything(3, 70), fixed([list(range(70))] * 3)], INTS,
         but={"tf": "TensorFlow clamps the distance, XLA's lowering does not"}),
    Case("next_after", tf.math.nextafter, PAIRS, ("float32",)),
]

TERNARY = [
    Case("where", lambda p, x, y: tf.where(p, x, y), [lambda rng, _: rng.integers(0, 2, 300) > 0,
                                                      anything(300), anything(300)], ALL),
    Case("where_broadcast", lambda p, x, y: tf.where(p > 0, x, y),
         [floats(4, 1), anything(4, 5), anything(5)], ALL),
    Case("clip_by_tensors", tf.clip_by_value, [anything(300), fixed(1), fixed(3)], NUMBERS),
    Case("lerp", lambda a, b, t: a + t * (b - a),
         [normal(9, 9), normal(9, 9), uniform(9, 1, low=0)],
         FLOATS, "chain"),
    Case("zero_size", lambda a, b: (a + b, a * 3, tf.maximum(a, b)),
         [normal(0, 4), normal(0, 4)], NUMBERS),
    Case("scalars", lambda a, b: (a + b, a * b, a < b), [normal(), normal()], NUMBERS),
    Case("broadcasts", lambda a, b, c, d: a * b + c - d,
         [normal(4, 1, 6), normal(5, 1), normal(6), normal()], NUMBERS, "chain"),
    Case("long_chain", lambda a, b: tf.tanh(a * b + 1) * tf.sigmoid(a - b) + tf.exp(-tf.abs(a)) / 3,
         [normal(37, 53), normal(37, 53)], FLOATS, "chain"),
    Case("mixed_chain", lambda a, b: tf.where(a > b, tf.cast(tf.cast(a * 4, tf.int32), a.dtype), b),
         [normal(129), normal(129)], FLOATS),
]


FLUSHED = {"xla": "XLA reads denormals as zeros", "tf": "TensorFlow flushes denormals to zero"}
DENORMALS = [
    Case("add", tf.add, [denormals, denormals], ("float32",), but=FLUSHED),
    Case("multiply", lambda x: x * 0.5, [denormals], ("float32",), but=FLUSHED),
    Case("from_normal", lambda x, y: x * y, [uniform(200), denormals], ("float32",), but=FLUSHED),
    Case("compare", tf.less, [denormals, denormals], ("float32",), but=FLUSHED),
    Case("sign", tf.sign, [denormals], ("float32",), but=FLUSHED),
    Case("round", tf.math.ceil, [denormals], ("float32",), but=FLUSHED),
    Case("sqrt", tf.sqrt, [denormals], ("float32",), "math", but=FLUSHED),
    Case("log", lambda x: tf.math.log(tf.abs(x)), [denormals], ("float32",), "math", but=FLUSHED),
    Case("to_bool", lambda x: tf.cast(x, tf.bool), [denormals], ("float32",), but=FLUSHED),
    Case("from_half", lambda x: tf.cast(x, tf.float32), [denormals], ("float16",)),
    Case("to_half", lambda x: tf.cast(x, tf.float16), [uniform(500, low=-1e-4, high=1e-4)],
         ("float32",)),
    Case("sum", lambda x: tf.reduce_sum(x), [denormals], ("float32",), but=FLUSHED),
]


def _random_bytes(rng, dtype):
    return rng.integers(-2 ** 31, 2 ** 31, 64).astype(np.int32)


def _inside(target):
    """Edge values, of floats those that fit the integer type `target`."""
    def generate(rng, dtype):
        values = edges(rng, dtype)
        if np.dtype(dtype).kind == "f" and np.dtype(target).kind in "iu":
            info = np.iinfo(target)
            wide = values.astype(np.float64)
            with np.errstate(invalid="ignore"):
                values = values[(wide > info.min - 1) & (wide < info.max) & (wide < 2.0 ** 62)]
        return values
    return generate


SATURATES = {"xla": "XLA saturates, and has 0 for NaN"}
CASTS = [
    Case(f"cast_to_{target}", lambda x, target=target: tf.cast(x, target), [_inside(target)], ALL)
    for target in ALL + ("float64",)
] + [
    Case(f"cast_edges_to_{target}", lambda x, target=target: tf.cast(x, target), EDGES, FLOATS,
         but=SATURATES) for target in ("int32", "int64")
] + [
    # No more than a few: where TensorFlow's kernels take many at once, some CPUs saturate.
    Case(f"cast_out_of_range_to_{target}", lambda x, target=target: tf.cast(x, target),
         [fixed([-1, -1.5, -.5, 255, 256, 300, -200, 1e5, 3e9, np.nan, np.inf])], ("float32",),
         but=SATURATES) for target in ("int8", "uint8", "int16", "uint16")
] + [
    Case(f"saturate_cast_to_{target}", lambda x, target=target: tf.saturate_cast(x, target),
         [_inside("int32")], ("float32", "int32")) for target in ("int8", "uint8")
] + [
    Case("bitcast_to_halves", lambda x: (tf.bitcast(x, tf.float16), tf.bitcast(x, tf.float32),
                                         tf.bitcast(x, tf.uint8)), [_random_bytes], ("int32",)),
    Case("bitcast_to_integers", lambda x: tf.bitcast(x, tf.int16), EDGES, ("float16",)),
    Case("bitcast_from_bytes", lambda x: tf.bitcast(x, tf.int32), [anything(5, 4)], ("uint8",)),
]

test_unary = differential(UNARY)
test_binary = differential(BINARY)
test_ternary = differential(TERNARY)
test_casts = differential(CASTS)
test_denormals = differential(DENORMALS)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    for table in (UNARY[::6], BINARY[::7], TERNARY[::3], CASTS[::4]):
        check_all(table)
