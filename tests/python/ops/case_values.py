"""What goes into the cases: generated arrays.

A generator is called with a seeded numpy generator and the dtype of the case, and returns an array.
"""

import numpy as np


def _shaped(values, dtype):
    return np.asarray(values).astype(dtype)


def normal(*shape, scale=1.0):
    """Normally distributed floats; small integers; bools."""
    def generate(rng, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return _shaped(rng.standard_normal(shape) * scale, dtype)
        if dtype.kind == "b":
            return _shaped(rng.integers(0, 2, shape), dtype)
        return _shaped(rng.integers(0 if dtype.kind == "u" else -9, 10, shape), dtype)
    return generate


def uniform(*shape, low=-1.0, high=1.0):
    """Floats between two bounds."""
    return lambda rng, dtype: _shaped(rng.uniform(low, high, shape), dtype)


def anything(*shape):
    """Integers from the whole range of the type (sums overflow); floats of all magnitudes."""
    def generate(rng, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return _shaped(rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape), dtype)
        if dtype.kind == "b":
            return _shaped(rng.integers(0, 2, shape), dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return generate


def indices(*shape, high, low=0):
    """int32 whatever the dtype of the case."""
    return lambda rng, dtype: rng.integers(low, high, shape).astype(np.int32)


def fixed(values, dtype=None):
    """These values, of the case's dtype or of one of their own."""
    return lambda rng, of_case: np.array(values, dtype or of_case)


def floats(*shape, scale=1.0):
    """float32 whatever the dtype of the case."""
    return lambda rng, dtype: _shaped(rng.standard_normal(shape) * scale, np.float32)


def positive_floats(*shape):
    """float32 from 0.5 to 1.5, such as variances."""
    return lambda rng, dtype: _shaped(rng.uniform(0.5, 1.5, shape), np.float32)


def edge_values(dtype, rng, infinite=True):
    """The values at which something changes, and a few ordinary ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, 2, 3, 7]
        if dtype.kind == "i":
            values += [-1, -2, -3, -7, info.min // 2]
        more = rng.integers(info.min, info.max, 6, dtype, endpoint=True)
        return np.concatenate([np.array(values, dtype), more])
    info = np.finfo(dtype)
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, np.pi, 7.75, 10.0, 11.1, 17.0, 88.0, 104.0, 1000.5,
              60000.0, 1e-3, float(info.tiny), float(info.max), float(info.eps)]
    if dtype == np.float16:
        values += [float(info.smallest_subnormal), float(info.tiny) / 4]
    else:  # without denormals: XLA and TensorFlow read them as zeros
        values += [88.72, 88.73, 16777216.0, 2147483648.0, 3e9, 1e10, 1e20, 1e-20]
    if infinite:
        values += [np.inf]
    values = np.array(values + list(rng.standard_normal(6)) + list(rng.standard_normal(6) * 30))
    values = np.concatenate([values, -values, [np.nan] if infinite else []])
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def edges(rng, dtype):
    """A vector of the values at which something changes."""
    return edge_values(dtype, rng)


def finite_edges(rng, dtype):
    return edge_values(dtype, rng, infinite=False)


def denormals(rng, dtype):
    """Denormals, and what denormals come from and go to."""
    info = np.finfo(dtype)
    scales = float(info.tiny) * 2.0 ** rng.integers(-9, 3, 200)
    return (scales * rng.uniform(-2, 2, 200)).astype(dtype)


def _pair(dtype):
    values = edge_values(dtype, np.random.default_rng(5))
    return np.repeat(values, len(values)), np.tile(values, len(values))


def edges_left(rng, dtype):
    """With edges_right: every pair of edge values."""
    return _pair(dtype)[0]


def edges_right(rng, dtype):
    return _pair(dtype)[1]
