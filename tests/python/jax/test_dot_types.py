"""Products of integers, float64 and complex numbers with any dimension numbers, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tremula.jax

RANDOM = np.random.default_rng(3)
# (shape, shape, (contracting, batch) as lax.dot_general takes them, subscripts of einsum)
FORMS = [
    ((7, 9), (9, 5), (((1,), (0,)), ((), ())), "ik,kj->ij"),
    ((9, 7), (5, 9), (((0,), (1,)), ((), ())), "ki,jk->ij"),
    ((40, 200), (200, 33), (((1,), (0,)), ((), ())), "ik,kj->ij"),
    ((300,), (300,), (((0,), (0,)), ((), ())), "k,k->"),
    ((64, 130), (130,), (((1,), (0,)), ((), ())), "ik,k->i"),
    ((3, 8, 17), (3, 17, 6), (((2,), (1,)), ((0,), (0,))), "bik,bkj->bij"),
    ((8, 3, 17, 2), (17, 6, 3, 2), (((2, 3), (0, 3)), ((1,), (2,))), "ibkl,kjbl->bij"),
    ((4, 5, 6), (5, 7, 4), (((0, 1), (2, 0)), ((), ())), "kli,ljk->ij"),
    ((5, 4, 3), (3, 6), (((2,), (0,)), ((), ())), "abk,kj->abj"),
    ((1, 1), (1, 1), (((1,), (0,)), ((), ())), "ik,kj->ij"),
]
INTEGERS = "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def whole(shape, dtype):
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("form", FORMS, ids=[form[3] for form in FORMS])
def test_integers_are_exact(form):
    lhs, rhs, numbers, subscripts = form

    def function(*pairs):
        return [lax.dot_general(a, b, numbers, preferred_element_type=result)
                for (a, b), result in zip(pairs, results)]

    pairs, results = [], []
    for one in INTEGERS:
        for result in {one, "int32" if one[0] == "i" else "uint32", "int64"}:
            if np.dtype(result).itemsize >= np.dtype(one).itemsize:
                pairs.append((whole(lhs, one), whole(rhs, one)))
                results.append(result)
    for (a, b), dtype, got in zip(pairs, results, tremula.jax.jit(function)(*pairs)):
        exact = np.einsum(subscripts, a.astype(np.int64), b.astype(np.int64))
        np.testing.assert_array_equal(np.asarray(got), exact.astype(dtype), err_msg=dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
@pytest.mark.parametrize("form", FORMS, ids=[form[3] for form in FORMS])
def test_floats(form, dtype):
    lhs, rhs, numbers, subscripts = form
    a, b = (RANDOM.standard_normal(shape).astype(dtype) for shape in (lhs, rhs))
    if dtype[0] == "c":
        a, b = a + 1j * RANDOM.standard_normal(lhs), b + 1j * RANDOM.standard_normal(rhs)
        a, b = a.astype(dtype), b.astype(dtype)
    got = np.asarray(tremula.jax.jit(lambda a, b: lax.dot_general(a, b, numbers))(a, b))
    exact = np.einsum(subscripts, a.astype("complex256"), b.astype("complex256"))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, exact.astype(np.complex128), rtol=0,
                               atol=np.finfo(dtype).eps * 20 * max(1, np.abs(exact).max()))


def test_special_values_spread_as_far_as_they_should():
    a = np.eye(5)
    a[2, 3] = np.inf
    product = np.asarray(tremula.jax.jit(jnp.matmul)(a, np.ones((5, 20))))
    assert (product[2] == np.inf).all() and (np.delete(product, 2, 0) == 1).all()
