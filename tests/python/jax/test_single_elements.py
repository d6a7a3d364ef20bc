"""Gathers and scatters of single elements, of every type that has a loop of its own, with indices
of several types that also lie outside; more of them than are looked up at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

RANDOM = np.random.default_rng(11)
TYPES = "bool int8 uint16 int32 uint32 float32 float16 int64 float64 complex64 complex128".split()


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def as_jax(function, *arguments):
    right = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    got = jax.tree_util.tree_leaves(tremula.jax.jit(function)(*arguments))
    for i, (one, other) in enumerate(zip(got, right, strict=True)):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=str(i))


@pytest.mark.parametrize("dtype, index_type", [(one, "int32") for one in TYPES] + [
    ("float32", one) for one in ("int16", "uint16", "uint32", "int64", "uint64")])
def test_take_and_set(dtype, index_type):
    x = RANDOM.integers(0, 100, (7, 50)).astype(dtype)
    i = RANDOM.integers(0, 60, 700).astype(index_type)
    j = RANDOM.permutation(350)[:300].astype("int32")
    as_jax(lambda x, i, j: (
        x[:, :].ravel()[i], jnp.take(x, i, axis=1, mode="clip"), jnp.take_along_axis(
            x, (i.reshape(7, 100) % 50).astype("int32"), 1), x[i % 7, (i + 1) % 50],
        x.ravel().at[j].set(x.ravel()[:300]), x.at[3, i].set(x[2, 3])), x, i, j)


@pytest.mark.parametrize("dtype", TYPES[1:])
def test_add(dtype):
    x = RANDOM.integers(0, 100, (7, 50)).astype(dtype)  # so that sums are exact
    i, values = RANDOM.integers(-3, 60, 700), RANDOM.integers(0, 3, 700).astype(dtype)
    as_jax(lambda x, i, v: (
        x.at[3, i].add(v), x.at[i, 2].add(v, mode="drop"), x.ravel().at[i].add(v),
        jax.vmap(lambda row, at: row.at[at].add(1))(x, i.reshape(7, 100))), x, i, values)


def test_repeated_places_are_added_in_order():
    x = np.zeros(3, np.float32)
    values = RANDOM.standard_normal(1000).astype(np.float32)
    got = np.asarray(tremula.jax.jit(lambda x, v: x.at[jnp.ones(1000, int)].add(v))(x, values))
    total = np.float32(0)
    for value in values:
        total += value
    assert got[1] == total and got[0] == got[2] == 0
