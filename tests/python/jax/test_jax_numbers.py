"""Functions of JAX give the numbers that JAX computes. All of cases.py runs in `make test-all`,
with several versions; a part of it always."""

import warnings

import cases
import jax
import numpy as np
import pytest

import tremula.jax

ALWAYS = {
    "jnp.sin", "jnp.power", "complex", "arithmetic of bfloat16", "gathers", "scatters", "pads",
    "jnp.var of axes", "lax.cumsum", "reduce_window", "sorts", "top_k", "products", "cholesky",
    "solve", "fft", "convolution grouped", "nn.softmax", "gradient of a classifier",
    "gradient of a network", "vmap", "gradient of a scan", "while", "cond and switch",
    "random.normal", "random.choice", "rng_bit_generator", "special.erfinv"}
# Bounds in parts of the largest value, where a few roundings of float32 are not enough.
BOUNDS = {"arithmetic of float16": 1e-3, "arithmetic of bfloat16": 1e-2, "norms": 1e-4,
          "solve": 1e-4, "gradients of factorisations": 1e-3, "expm": 1e-4, "cg": 1e-4,
          "lax.cumprod": 1e-4, "second derivatives": 1e-4,
          "dot of bfloat16 into float32": 2e-2}  # which JAX 0.4.30 rounds before the sum
assert set(cases.CASES) >= ALWAYS


@pytest.mark.parametrize("name", [name if name in ALWAYS else pytest.param(
    name, marks=pytest.mark.long) for name in cases.CASES])
def test_as_jax(name):
    function, arguments = cases.CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # types of 64 bits that become those of 32
        wanted = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
        results = jax.tree_util.tree_leaves(tremula.jax.jit(function)(*arguments))
    assert len(results) == len(wanted)
    for i, (result, right) in enumerate(zip(results, map(np.asarray, wanted))):
        assert result.shape == right.shape and result.dtype == right.dtype, i
        if right.dtype.kind in "biu":
            np.testing.assert_array_equal(result, right, err_msg=str(i))
            continue
        kind = np.complex128 if right.dtype.kind == "c" else np.float64
        result, right = np.asarray(result).astype(kind), right.astype(kind)
        finite = np.isfinite(right)
        np.testing.assert_array_equal(np.isfinite(result), finite, err_msg=str(i))
        np.testing.assert_array_equal(result[~finite], right[~finite], err_msg=str(i))
        scale = max(1e-6, np.abs(right[finite]).max(initial=0))
        np.testing.assert_allclose(result[finite], right[finite], rtol=2e-5,
                                   atol=BOUNDS.get(name, 5e-6) * scale, err_msg=str(i))
