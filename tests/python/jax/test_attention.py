"""Attention, large enough that its square matrix is not made, and products of a few tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

RANDOM = np.random.default_rng(5)
attention = getattr(jax.nn, "dot_product_attention", None)  # JAX 0.4.31 has it


def numbers(*shape, dtype="float32"):
    return jnp.asarray(RANDOM.standard_normal(shape), dtype)


def as_jax(function, *arguments, bound=1e-5):
    right, got = jax.jit(function)(*arguments), tremula.jax.jit(function)(*arguments)
    for one, other in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(right)):
        np.testing.assert_allclose(np.asarray(one, np.float32), np.asarray(other, np.float32),
                                   atol=bound, rtol=0)


@pytest.mark.skipif(attention is None, reason="this JAX has no dot_product_attention")
@pytest.mark.parametrize("form", ["plain", "causal", "bias", "mask", "groups", "short", "gradient"])
def test_of_jax(form):
    q, k, v = (numbers(2, 300, 4, 32) for _ in range(3))
    if form == "plain":
        as_jax(attention, q, k, v)
    elif form == "causal":
        as_jax(lambda q, k, v: attention(q, k, v, is_causal=True), q, k, v)
    elif form == "bias":
        as_jax(lambda q, k, v, b: attention(q, k, v, bias=b), q, k, v, numbers(1, 4, 300, 300))
    elif form == "mask":
        mask = jnp.asarray(RANDOM.random((2, 1, 1, 300)) < 0.7)
        as_jax(lambda q, k, v, m: attention(q, k, v, mask=m), q, k, v, mask)
    elif form == "groups":
        as_jax(attention, numbers(2, 300, 8, 32), k, v)
    elif form == "short":
        as_jax(attention, numbers(3, 1009, 4, 32), numbers(3, 77, 4, 32), numbers(3, 77, 4, 32))
    else:
        as_jax(jax.grad(lambda *all_: (attention(*all_) ** 2).sum(), argnums=(0, 1, 2)), q, k, v,
               bound=1e-4)


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-5), ("float16", 2e-3),
                                          ("bfloat16", 2e-2)])
@pytest.mark.parametrize("queries", [1, 300])
def test_einsum(dtype, bound, queries):
    def function(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * jnp.asarray(0.2, dtype)
        weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(dtype)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    as_jax(function, numbers(2, queries, 4, 40, dtype=dtype), numbers(2, 500, 4, 40, dtype=dtype),
           numbers(2, 500, 4, 40, dtype=dtype), bound=bound)


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-4), ("float16", 1e-2), ("bfloat16", 0.1)])
@pytest.mark.parametrize("columns", [1024, 701])
def test_one_token(dtype, bound, columns):
    w, x = numbers(515, columns, dtype=dtype) / 8, numbers(1, 515, dtype=dtype) / 8
    as_jax(lambda x, w: x @ w, x, w, bound=bound)
    as_jax(lambda x, w: w @ x, x[0, :columns], w[:, :515], bound=bound)
