"""Casts of floats that an integer type cannot hold: as XLA's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

VALUES = [0, -0.0, .5, -.5, 1.9, -1.9, -1, 7.5, 8, -8, -9, 127.5, 128, -128.5, -129, 255.9, 256,
          300, 32768, -32769, 65536, 2. ** 31, -2. ** 31, -3e9, 3e9, 2. ** 32, 2. ** 63, -2. ** 63,
          1e19, 2. ** 64, 1e30, -1e30, np.inf, -np.inf, np.nan]
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int4",
            "uint4")


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def largest(x):
    """JAX 0.4.30's own compiler has no maximum of four bits."""
    return jnp.max(x.astype("int32") if x.dtype.itemsize == 1 else x)


def casts(x, y):
    """Each type, and in a chain with others."""
    return [(x.astype(one), (x * y).astype(one).astype("int32") + 1, largest(x.astype(one)))
            for one in INTEGERS]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_as_xla_casts(dtype):
    x = jnp.asarray(VALUES, dtype)
    found = jax.tree.leaves(tremula.jax.jit(casts)(x, jnp.ones_like(x)))
    expected = jax.tree.leaves(jax.jit(casts)(x, jnp.ones_like(x)))
    for k, (one, other) in enumerate(zip(found, expected)):
        np.testing.assert_array_equal(np.asarray(one).astype("int64"),
                                      np.asarray(other).astype("int64"), err_msg=INTEGERS[k // 3])


@pytest.mark.parametrize("values", [VALUES[i::5] for i in range(5)])
def test_constants(values):
    """Several constants a program, because to compile it takes most of the time."""
    def function(x):
        return [[(x * 0 + jnp.float32(value)).astype(one) for one in INTEGERS] + [
            jnp.full([3], value, "float32").astype(one) for one in INTEGERS] for value in values]

    for value, found, expected in zip(values, tremula.jax.jit(function)(jnp.float32(1)),
                                      jax.jit(function)(jnp.float32(1))):
        for one, other in zip(found, expected):
            np.testing.assert_array_equal(np.asarray(one).astype("int64"),
                                          np.asarray(other).astype("int64"), err_msg=str(value))
