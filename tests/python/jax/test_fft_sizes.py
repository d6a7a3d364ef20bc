"""Fourier transforms of lengths that take another path of src/host/ops/fourier/fourier.c, against
NumPy in float64: factors of every kind, primes (by a convolution), long lines (in two passes)."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

RANDOM = np.random.default_rng(5)
LENGTHS = [1, 2, 3, 4, 5, 6, 8, 12, 16, 30, 31, 37, 49, 64, 77, 97, 100, 101, 128, 222, 360, 1009,
           1024, 2310, 4096, 4099, 6144, 8198, 65536, 100000, 100003]


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def numbers(*shape, dtype):
    x = RANDOM.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RANDOM.standard_normal(shape)
    return x.astype(dtype)


def close(got, right, what=""):
    """Within some roundings of the root of the mean square, which grow with the logarithm."""
    size = np.sqrt(np.mean(np.abs(right) ** 2)) if right.size else 1
    bound = np.finfo(got.dtype).eps * 8 * (1 + np.log2(max(right.size, 2))) * max(size, 1e-9)
    assert got.shape == right.shape
    assert np.abs(got - right).max(initial=0) < bound, what


def run(function, *arguments):
    return [np.asarray(one) for one in tremula.jax.jit(function)(*arguments)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_lines(n, dtype):
    kind = {"float32": "complex64", "float64": "complex128"}[dtype]
    for lines in (1, 3) if n > 5000 else (1, 19):
        z, x = numbers(lines, n, dtype=kind), numbers(lines, n, dtype=dtype)
        half = numbers(lines, n // 2 + 1, dtype=kind)
        f, i, r, h = run(lambda z, x, half: (jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x),
                                             jnp.fft.irfft(half, n)), z, x, half)
        close(f, np.fft.fft(z.astype(complex)), "fft")
        close(i, np.fft.ifft(z.astype(complex)), "ifft")
        close(r, np.fft.rfft(x.astype(float)), "rfft")
        close(h, np.fft.irfft(half.astype(complex), n), "irfft")
        assert f.dtype == i.dtype == r.dtype == kind and h.dtype == dtype


@pytest.mark.parametrize("shape", [(5, 7), (16, 33), (3, 4, 5), (2, 40, 8, 6), (1, 128), (128, 1)])
def test_several_dimensions(shape):
    z, x = numbers(*shape, dtype="complex64"), numbers(*shape, dtype="float32")
    axes = tuple(range(len(shape)))[-3:]
    half = np.fft.rfftn(x, axes=axes).astype("complex64")
    f, i, r, h, swapped = run(lambda z, x, half: (
        jnp.fft.fftn(z, axes=axes), jnp.fft.ifftn(z, axes=axes), jnp.fft.rfftn(x, axes=axes),
        jnp.fft.irfftn(half, [shape[a] for a in axes], axes), jnp.fft.fft(z, axis=0)), z, x, half)
    close(f, np.fft.fftn(z, axes=axes))
    close(i, np.fft.ifftn(z, axes=axes))
    close(r, np.fft.rfftn(x, axes=axes))
    close(h, np.fft.irfftn(half, [shape[a] for a in axes], axes))
    close(swapped, np.fft.fft(z, axis=0))


THREADS = """
import sys
import numpy as np, jax, jax.numpy as jnp, tremula.jax
x = np.random.default_rng(1).standard_normal((4, 100, 240)).astype("complex64")
y = x.reshape(2, -1)[:, :40000]
results = tremula.jax.jit(lambda x, y: (jnp.fft.fft2(x), jnp.fft.ifft(y), jnp.fft.rfft(y.real),
                                        jnp.fft.fft(y[:, :37 * 64].reshape(-1, 37))))(x, y)
for leaf in results:
    sys.stdout.buffer.write(np.ascontiguousarray(leaf).tobytes())
"""


def test_threads_and_instruction_sets_give_the_same_bits():
    def results(threads, isa):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TREMULA_ISA": isa,
                       "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return subprocess.run([sys.executable, "-c", THREADS], env=environment, check=True,
                              capture_output=True, timeout=500).stdout
    first = results(1, "")
    assert len(first) > 1e6
    assert results(2, "") == first
    assert results(2, "baseline") == first
