"""Factorisations of every size and shape that takes another path of src/host/ops/algebra/dense.c:
against their definitions and NumPy, in float32 and float64. Those that are Tremula's own give the
same bits for 1 and 2 threads."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

TYPES = np.float32, np.float64
SIZES = 1, 2, 5, 32, 33, 100


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def run(function, *arguments):
    result = tremula.jax.jit(function)(*arguments)
    return jax.tree_util.tree_map(np.asarray, result)


def matrix(*shape, dtype=np.float64, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(result, right, dtype, size=1):
    """Within some roundings of the largest value, times the size of the matrix."""
    scale = max(np.abs(right).max(initial=0), 1e-30)
    np.testing.assert_allclose(result, right, rtol=0,
                               atol=40 * np.finfo(dtype).eps * max(size, 1) ** 0.5 * scale)


def definite(n, dtype):
    a = matrix(n, n)
    return (a @ a.T / n + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n, dtype):
    a = definite(n, dtype)
    lower, upper = run(lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a, upper=True)), a)
    close(lower, np.linalg.cholesky(a.astype(float)), dtype, n)
    close(upper, lower.T, dtype, n)
    assert (np.triu(lower, 1) == 0).all()
    a[n // 2, n // 2] = -1
    assert np.isnan(run(jnp.linalg.cholesky, a)[np.tril_indices(n)]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n, columns", [(1, 1), (5, 3), (16, 1), (33, 40), (100, 7), (64, 300)])
def test_triangular_solve(n, columns, dtype):
    a = np.tril(matrix(n, n)) / n + 2 * np.eye(n)
    for lower in (True, False):
        for transpose in (False, True):
            for unit in (False, True):
                for left in (True, False):
                    t = (a if lower else a.T).astype(dtype)
                    b = matrix(*((n, columns) if left else (columns, n)), dtype=dtype)
                    x = run(functools.partial(
                        jax.lax.linalg.triangular_solve, left_side=left, lower=lower,
                        transpose_a=transpose, unit_diagonal=unit), t, b)
                    u = t.astype(float)
                    if unit:
                        np.fill_diagonal(u, 1)
                    u = u.T if transpose else u
                    close(u @ x if left else x @ u, b, dtype, n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(n, n) for n in SIZES] + [(1, 7), (9, 1), (40, 100), (100, 40),
                                                            (65, 64), (200, 130)])
def test_lu(m, n, dtype):
    a = matrix(m, n, dtype=dtype)
    lu, pivots, order = run(jax.lax.linalg.lu, a)
    k = min(m, n)
    lower, upper = np.tril(lu, -1)[:, :k] + np.eye(m, k), np.triu(lu)[:k]
    close(lower @ upper, a[order], dtype, k)
    assert np.abs(lower).max() <= 1
    assert ((pivots >= np.arange(k)) & (pivots < m)).all()
    if m == n:
        b = matrix(n, 3, dtype=dtype)
        x = run(jnp.linalg.solve, a, b)
        np.testing.assert_allclose(a.astype(float) @ x, b, rtol=0, atol=np.finfo(
            dtype).eps * n * 10 * np.abs(a).max() * max(1, np.abs(x).max()))


def test_lu_of_singular_matrices():
    lu, pivots, _ = run(jax.lax.linalg.lu, np.zeros((40, 40), np.float32))
    assert (lu == 0).all() and (pivots == np.arange(40)).all()
    a = matrix(50, 50)
    a[:, 20] = a[:, 3]
    assert abs(run(jnp.linalg.det, a)) < 1e-10 * np.abs(np.linalg.det(matrix(50, 50)))
    assert np.isnan(run(jnp.linalg.solve, np.full((3, 3), np.nan), np.ones(3))).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(n, n) for n in SIZES] + [(1, 7), (9, 1), (40, 100), (100, 40),
                                                            (65, 64), (200, 130)])
def test_qr(m, n, dtype):
    a = matrix(m, n, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = run(functools.partial(jnp.linalg.qr, mode=mode), a)
        close(q @ r, a, dtype, m)
        close(q.T @ q, np.eye(q.shape[1]), dtype, m)
        assert (np.tril(r, -1) == 0).all()
    zero, _ = run(lambda a: tuple(jnp.linalg.qr(a)), np.zeros((m, n), dtype))
    close(zero.T @ zero, np.eye(min(m, n)), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [1, pytest.param(1e-30, marks=pytest.mark.long), 1e30])
@pytest.mark.parametrize("n", SIZES)
def test_eigh(n, scale, dtype):
    a = matrix(n, n)
    a = ((a + a.T) * scale).astype(dtype)
    for lower in (True, False):
        part = np.tril(a) if lower else np.triu(a)
        w, v = run(functools.partial(jnp.linalg.eigh, UPLO="L" if lower else "U",
                                     symmetrize_input=False), part)
        wanted = np.linalg.eigvalsh(a.astype(float))
        close(w, wanted, dtype, n)
        close(v.T @ v, np.eye(n), dtype, n)
        close(a.astype(float) @ v, v * w.astype(float), dtype, n)
    close(run(jnp.linalg.eigvalsh, a), wanted, dtype, n)


@pytest.mark.parametrize("a", [
    np.zeros((40, 40)), np.eye(33), np.diag(np.arange(40.)), np.ones((50, 50)),
    np.diag(np.logspace(-300, 300, 40)), np.kron(np.eye(20), np.ones((2, 2)))],
    ids=["zero", "one", "diagonal", "rank 1", "graded", "blocks"])
def test_special_matrices(a):
    w, v = run(lambda a: tuple(jnp.linalg.eigh(a)), a)
    close(w, np.linalg.eigvalsh(a), float, 40)
    close(v.T @ v, np.eye(len(a)), float, 40)
    u, s, vt = run(lambda a: tuple(jnp.linalg.svd(a)), a)
    close(s, np.linalg.svd(a, compute_uv=False), float, 40)
    close(u.T @ u, np.eye(len(a)), float, 40)
    close(vt @ vt.T, np.eye(len(a)), float, 40)
    scale = np.abs(a).max(initial=1)
    close(u / scale * s @ vt, a / scale, float, 40)


def test_nan():
    a = matrix(20, 20)
    a[3, 4] = np.nan
    for result in run(lambda a: (*jnp.linalg.eigh(a), *jnp.linalg.svd(a)), a):
        assert np.isnan(result).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [1, pytest.param(1e-30, marks=pytest.mark.long), 1e30])
@pytest.mark.parametrize("m, n", [(n, n) for n in SIZES] + [(1, 7), (9, 1), (40, 100), (100, 40),
                                                            (65, 64), (200, 130)])
def test_svd(m, n, scale, dtype):
    a = (matrix(m, n) * scale).astype(dtype)
    wanted = np.linalg.svd(a.astype(float), compute_uv=False)
    for full in (False, True):
        u, s, vt = run(functools.partial(jnp.linalg.svd, full_matrices=full), a)
        k = min(m, n)
        close(s, wanted, dtype, m + n)
        close(u.T @ u, np.eye(u.shape[1]), dtype, m + n)
        close(vt @ vt.T, np.eye(vt.shape[0]), dtype, m + n)
        close(u[:, :k] * s.astype(float) @ vt[:k], a.astype(float), dtype, m + n)
    close(run(lambda a: jnp.linalg.svd(a, compute_uv=False), a), wanted, dtype, m + n)


def test_of_low_rank():
    a = matrix(90, 3) @ matrix(3, 60)
    u, s, vt = run(lambda a: tuple(jnp.linalg.svd(a)), a)
    close(s, np.linalg.svd(a, compute_uv=False), float, 90)
    close(u.T @ u, np.eye(90), float, 90)
    close(u[:, :60] * s @ vt, a, float, 90)


def test_batches():
    a = matrix(7, 2, 12, 12, dtype=np.float32)
    symmetric = a + np.swapaxes(a, -1, -2)
    w, v = run(lambda a: tuple(jnp.linalg.eigh(a)), symmetric)
    close(w, np.linalg.eigvalsh(symmetric.astype(float)), np.float32, 12)
    u, s, vt = run(lambda a: tuple(jnp.linalg.svd(a)), a)
    close(u * s[..., None, :] @ vt, a, np.float32, 24)
    close(a @ run(jnp.linalg.inv, a.astype(float)), np.broadcast_to(np.eye(12), a.shape),
          np.float64, 1e6)
    q, r = run(lambda a: tuple(jnp.linalg.qr(a)), a)
    close(q @ r, a, np.float32, 12)


THREADS = """
import os, sys
import numpy as np, jax, jax.numpy as jnp, tremula.jax
jax.config.update("jax_enable_x64", True)
for dtype in "float32", "float64":
    a = np.random.default_rng(1).standard_normal((300, 300)).astype(dtype)
    # No product of float32: those of different instruction sets may round differently.
    results = tremula.jax.jit(lambda a: (
        jnp.linalg.cholesky(a + a.T + 100 * jnp.eye(300, dtype=dtype)), jnp.linalg.qr(a),
        jnp.linalg.eigh(a), jax.lax.linalg.triangular_solve(a, a[:, :40], left_side=True),
        jnp.linalg.qr(a.reshape(30, 100, 30)), a @ a if dtype == "float64" else a))(a)
    for leaf in jax.tree_util.tree_leaves(results):
        sys.stdout.buffer.write(np.ascontiguousarray(leaf).tobytes())
"""


def test_threads_and_instruction_sets_give_the_same_bits():
    def results(threads, isa):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TREMULA_ISA": isa,
                       "ONEDNN_MAX_CPU_ISA": "AVX2",
                       "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return subprocess.run([sys.executable, "-c", THREADS], env=environment, check=True,
                              capture_output=True, timeout=500).stdout
    first = results(1, "")
    assert len(first) > 6e6
    assert results(2, "") == first
    assert results(2, "baseline") == first
