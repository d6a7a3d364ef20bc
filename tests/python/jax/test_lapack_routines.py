"""Each function of JAX's that a LAPACK found at run time computes, against JAX on the CPU, and what
happens where there is none."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax
from tremula.jax import lapack

TYPES = "float32", "float64", "complex128"


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def matrix(*shape, dtype):
    random = np.random.default_rng(3)
    values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return values.astype(dtype) if dtype.startswith("complex") else values.real.astype(dtype)


def definite(a):
    return a @ jnp.conj(jnp.swapaxes(a, -1, -2)) + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)


def rebuilt(u, s, vt):
    return u[..., :s.shape[-1]] * s[..., None, :] @ vt[..., :s.shape[-1], :]


def eigen(a):
    """The values, sorted, and how far the vectors are off."""
    w, left, right = jax.lax.linalg.eig(a)
    return (jnp.sort(w), a @ right - right * w[..., None, :],
            jnp.conj(jnp.swapaxes(left, -1, -2)) @ a
            - w[..., :, None] * jnp.conj(jnp.swapaxes(left, -1, -2)))


def hermitian(a):
    w, v = jnp.linalg.eigh(definite(a))
    return w, v * w[..., None, :] @ jnp.conj(jnp.swapaxes(v, -1, -2))


def tridiagonal(a):
    return jax.lax.linalg.tridiagonal_solve(a[..., 0], a[..., 1] + 5, a[..., 2], a[..., 1:])


def schur(a):
    t, z = jax.scipy.linalg.schur(a[0])
    return z @ t @ jnp.conj(z.T)


FUNCTIONS = {  # what has one result: signs and orders of vectors are LAPACK's choice
    "potrf": lambda a: jnp.linalg.cholesky(definite(a)),
    "getrf": lambda a: jax.lax.linalg.lu(a),
    "getrf of wide": lambda a: jax.lax.linalg.lu(a[..., :3, :]),
    "trsm": lambda a: jax.lax.linalg.triangular_solve(definite(a), a, left_side=False, lower=True),
    "geqrf, orgqr": lambda a: jnp.linalg.qr(a[..., :3]),
    "gesdd": lambda a: rebuilt(*jnp.linalg.svd(a[..., :3])),
    "gesdd, thin": lambda a: rebuilt(*jnp.linalg.svd(a[..., :3, :], full_matrices=False)),
    "gesdd, values": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "syevd, heevd": hermitian, "geev": eigen, "gees": schur, "gtsv": tridiagonal,
    "geqp3": lambda a: jax.scipy.linalg.qr(a[0], pivoting=True),
    "gehrd": lambda a: jax.scipy.linalg.hessenberg(a[0], calc_q=True),
    "sytrd, hetrd": lambda a: jax.lax.linalg.tridiagonal(definite(a), lower=True)[:3],
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_routine(name, dtype):
    a = matrix(2, 5, 5, dtype=dtype)
    wanted, result = jax.jit(FUNCTIONS[name])(a), tremula.jax.jit(FUNCTIONS[name])(a)
    bound = 500 * np.finfo(dtype).eps
    for one, right in zip(*map(jax.tree_util.tree_leaves, (result, wanted))):
        assert one.dtype == right.dtype
        np.testing.assert_allclose(one, right, rtol=bound, atol=bound * 20)


WITHOUT = """
import jax, numpy as np, tremula.jax
from tremula import core
a = np.eye(4, dtype=np.float32)
assert tremula.jax.jit(jax.numpy.linalg.cholesky)(a).shape == (4, 4)
try:
    tremula.jax.jit(lambda a: jax.scipy.linalg.schur(a))(a)
except core.UnimplementedError as error:
    print(error)
"""


def test_without_a_lapack_the_message_says_what_to_install():
    environment = {**os.environ, "TREMULA_LAPACK": "/nowhere",
                   "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    text = subprocess.run([sys.executable, "-c", WITHOUT], env=environment, check=True, text=True,
                          capture_output=True, timeout=600).stdout
    assert "sgees" in text and "pip install scipy" in text and "TREMULA_LAPACK" in text


def test_a_library_that_is_named_is_kept(monkeypatch):
    monkeypatch.setenv("TREMULA_LAPACK", "mine.so")
    lapack.settle.__wrapped__()
    assert os.environ["TREMULA_LAPACK"] == "mine.so"
    monkeypatch.delenv("TREMULA_LAPACK")
    lapack.settle.__wrapped__()
    assert "openblas" in os.environ["TREMULA_LAPACK"].partition(":")[0]
