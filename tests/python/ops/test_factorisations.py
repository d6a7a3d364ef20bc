"""TensorFlow's factorisations are computed without a LAPACK."""

import numpy as np
import programs
import pytest
import tensorflow as tf

A = np.random.default_rng(2).standard_normal((6, 6)).astype(np.float32)
DEFINITE = A @ A.T + 3 * np.eye(6, dtype=np.float32)


def _eigen(a):
    w, v = tf.linalg.eigh(a)
    return w, v * w[..., None, :] @ tf.transpose(v)


def _singular(a):
    s, u, v = tf.linalg.svd(a)
    return s, u * s[..., None, :] @ tf.transpose(v)


FUNCTIONS = {
    "cholesky": lambda a: tf.linalg.cholesky(a),
    "cholesky_solve": lambda a: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), A),
    "triangular_solve": lambda a: tf.linalg.triangular_solve(a, A),
    "inverse": lambda a: tf.linalg.inv(a),
    "solve": lambda a: tf.linalg.solve(a, A),
    "qr": lambda a: tf.abs(tf.linalg.qr(a)[1]),
    "eigh": _eigen,
    "svd": _singular,
    "lstsq": lambda a: tf.linalg.lstsq(a, A),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", FUNCTIONS)
def test_needs_no_lapack(name, monkeypatch):
    """The library that is named does not exist, so that a call of LAPACK's would fail."""
    monkeypatch.setenv("TREMULA_LAPACK", "/nowhere/liblapack.so")
    argument = tf.constant(DEFINITE)
    hlo, _, _ = programs.lower_step(FUNCTIONS[name], [], [argument])
    results = programs.Program(hlo, [DEFINITE], []).step([DEFINITE])
    for result, wanted in zip(results, tf.nest.flatten(FUNCTIONS[name](argument))):
        wanted = wanted.numpy()
        np.testing.assert_allclose(result, wanted, atol=2e-3 * max(1, np.abs(wanted).max()))
