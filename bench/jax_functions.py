#!/usr/bin/env python3
"""Functions of JAX beside XLA's CPU, by tremula.jax and jax.jit: milliseconds a call, in turns.

    python bench/jax_functions.py [--threads N] [--rounds N] [--output PAGE.md] [PART OF A NAME]...

Needs JAX in its Python. Both compile the result of the same tracing. A ratio below 1 means that
ours is faster. After a ratio above 2 come the kernels that take the time, and the reason.
"""

import argparse
import functools
import os
import pathlib
import re
import sys
import time


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names; all without")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", help="a page to write, such as bench/jax_functions.md")
    return parser.parse_args()


def _limit_threads(count):
    """Limits the threads of both. Call it before JAX and libgomp are loaded: XLA's pool has a
    thread for each core that it may use."""
    cores = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(count)


if __name__ == "__main__":
    ARGUMENTS = _arguments()
    _limit_threads(ARGUMENTS.threads)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import tremula.jax  # noqa: E402
from comparison import machine  # noqa: E402

RANDOM = np.random.default_rng(0)
SLOW = 2.0
# The reason that a kernel is slower than XLA's.
REASONS = {
    "reference.elementwise": "no vector loops for bfloat16 and float64",
    "fast.algebra": "small matrices: what is not a product takes most of the time",
    "fast.fft": "reading lines into vectors costs as much as the transform",
    "fast.fusion": "the loops are interpreted strip by strip: long chains, integer division and "
                   "the functions of a random generator cost more than in compiled code",
    "fast.elementwise": "a pass over memory for each instruction; in a loop, a start of a kernel "
                        "for each",
    "fast.scalar": "in a loop, a start of a kernel for each number",
    "fast.gather": "gathers are not fused with what makes their indices",
    "fast.scatter": "one thread, so that what is added twice is added in order",
    "fast.reduce": "reductions are not fused with what they read",
    "fast.sum": "reductions are not fused with what they read; in a loop, a start of a kernel each",
    "fast.move": "moves are not fused with what they read",
    "fast.pad": "pads are not fused with what they read and what reads them",
    "fast.complex": "a pass over memory for each instruction",
    "fast.topk": "the search within a row costs more than XLA's",
    **dict.fromkeys(("onednn.dot", "panels.dot", "vector.dot", "sgemm.dot"),
                    "small products: starting the kernel costs as much as the product"),
}
HEAD = """# Functions of JAX beside XLA

The least milliseconds of a call of each function, by `tremula.jax.jit` and by `jax.jit`. Those with
a ratio above 2 have the kernels that take the time and the reason. `bench/jax_functions.py` wrote
this page.

"""


def floats(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape, dtype=np.float32).astype(dtype)


def indices(count, high):
    return RANDOM.integers(0, high, count).astype(np.int32)


def layer_norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def rnn(w, u, xs):
    def cell(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h
    return lax.scan(cell, jnp.zeros((xs.shape[1], u.shape[0])), xs)[1]


def attention(q):
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, q) / 8)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, q)


def convolve(x, k, **options):
    return lax.conv_general_dilated(x, k, **{"window_strides": (1, 1), "padding": "SAME",
                                             "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
                                             **options})


M = floats(1024, 1024)
IMAGES = floats(8, 56, 56, 64)
SQUARE = M[:256, :256] @ M[:256, :256].T + 256 * np.eye(256, dtype=np.float32)
BF16 = jnp.asarray(M, jnp.bfloat16)
KEY = np.array([1, 2], np.uint32)
CASES = {
    "add": (lambda x: x + 1, M),
    "exact gelu and tanh": (lambda x: jax.nn.gelu(x * 2 + 1, approximate=False) + jnp.tanh(x), M),
    "sin, log, power": (lambda x: jnp.sin(x) + jnp.log(jnp.abs(x)) ** 1.5, M),
    "erf_inv, lgamma": (lambda x: lax.erf_inv(jnp.tanh(x)) + lax.lgamma(jnp.abs(x) + 1), M),
    "elementwise bfloat16": (lambda x: jnp.tanh(x) * x + 1, BF16),
    "elementwise float16": (lambda x: jnp.tanh(x) * x + 1, M.astype(np.float16)),
    "integers": (lambda x: (x * 3 + (x >> 2)) % 7, indices(1 << 20, 1000)),
    "complex": (lambda x: jnp.abs(jnp.exp(1j * x)), M[:256]),
    "softmax": (jax.nn.softmax, M), "layer norm": (layer_norm, M),
    "sums": (lambda x: (x.sum(0), x.max(1), x.var()), M), "argmax": (lambda x: x.argmax(1), M),
    "sum of bfloat16": (lambda x: x.sum(1), BF16), "product": (lambda x: x.prod(0), M),
    "cumsum": (lambda x: jnp.cumsum(x, 1), M), "cummax": (lambda x: lax.cummax(x, 0), M),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x, axis=1), M[:128]),
    "sort": (lambda x: jnp.sort(x), floats(1 << 18)), "argsort": (jnp.argsort, M[:128]),
    "sort of pairs": (lambda x: lax.sort((x, x + 1), num_keys=2), M[:128]),
    "top_k": (lambda x: lax.top_k(x, 10), M), "median": (lambda x: jnp.median(x, 1), M[:128]),
    "transpose": (lambda x: x.T + 0, M), "reverse and pad": (
        lambda x: jnp.pad(x[::-1, ::-1], ((1, 2), (3, 4))), M),
    "concatenate": (lambda x: jnp.concatenate([x, x * 2], 1), M),
    "gather rows": (lambda x, i: x[i], floats(50000, 128), indices(8192, 50000)),
    "gather elements": (lambda x, i: x.ravel()[i], M, indices(1 << 18, 1 << 20)),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), M,
                        indices((1024, 64), 1024)),
    "scatter-add rows": (lambda x, i, v: x.at[i].add(v), floats(50000, 128), indices(4096, 50000),
                         floats(4096, 128)),
    "scatter elements": (lambda x, i: x.ravel().at[i].set(0), M, indices(1 << 16, 1 << 20)),
    "histogram": (lambda x: jnp.histogram(x, bins=64), M[:128]),
    "one-hot": (lambda i: jax.nn.one_hot(i, 1000), indices(1024, 1000)),
    "matmul": (jnp.matmul, M, M), "matmul bfloat16": (jnp.matmul, BF16, BF16),
    "matmul float16": (jnp.matmul, M.astype(np.float16), M.astype(np.float16)),
    "matmul int8": (lambda x: lax.dot(x, x, preferred_element_type=jnp.int32),
                    indices((512, 512), 100).astype(np.int8)),
    "matmul complex": (lambda x: x @ x, M[:256, :256].astype(np.complex64)),
    "batched matmul": (lambda x: x @ x, floats(64, 128, 128)),
    "matrix by vector": (jnp.matmul, M, floats(1024)), "attention": (
        attention, floats(2, 128, 8, 64)),
    "convolution 3x3": (convolve, IMAGES, floats(3, 3, 64, 64)),
    "convolution grouped": (functools.partial(convolve, feature_group_count=64), IMAGES,
                            floats(3, 3, 1, 64)),
    "convolution gradient": (jax.grad(lambda k, x: (convolve(x, k) ** 2).sum()),
                             floats(3, 3, 64, 64), IMAGES),
    "max pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                                             "SAME"), IMAGES),
    "max pool gradient": (jax.grad(lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum()), IMAGES),
    "resize": (lambda x: jax.image.resize(x, (8, 112, 112, 64), "linear"), IMAGES),
    "cholesky": (jnp.linalg.cholesky, SQUARE), "solve": (jnp.linalg.solve, SQUARE, M[:256, :256]),
    "triangular solve": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), SQUARE,
                         M[:256, :256]),
    "qr": (jnp.linalg.qr, SQUARE), "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False),
                                           SQUARE[:128, :128]),
    "eigh": (lambda a: jnp.linalg.eigh(a), SQUARE[:128, :128]),
    "fft": (jnp.fft.fft, M[:256]), "fft2": (jnp.fft.fft2, M[:256, :256]),
    "random normal": (lambda k: jax.random.normal(k, (1024, 1024)), KEY),
    "random bits by rbg": (lambda k: lax.rng_bit_generator(jnp.tile(k, 2), (1 << 20,)), KEY),
    "dropout": (lambda k, x: jnp.where(jax.random.bernoulli(k, 0.9, x.shape), x, 0), KEY, M),
    "scan of an RNN": (rnn, floats(64, 128), floats(128, 128), floats(100, 32, 64)),
    "gradient of an RNN": (jax.grad(lambda w, u, x: (rnn(w, u, x) ** 2).mean()), floats(64, 128),
                           floats(128, 128), floats(100, 32, 64)),
    "loop of small steps": (lambda x: lax.fori_loop(0, 1000, lambda i, v: v * 0.999 + 0.1, x),
                            floats(64)),
    "while with a condition": (lambda x: lax.while_loop(lambda v: v.sum() < 1e5,
                                                        lambda v: v * 1.01 + 0.1, x),
                               np.abs(floats(64))),
    "vmap of dynamic slices": (lambda x, i: jax.vmap(
        lambda v, j: lax.dynamic_slice(v, (j,), (64,)))(x, i), M, indices(1024, 900)),
}


def measure(function, argument_list, rounds):
    """The least seconds of a call of each, and how the results differ."""
    arguments = [jnp.asarray(one) for one in argument_list]
    ours, theirs = tremula.jax.jit(function), jax.jit(function)
    first, second = ours(*arguments), jax.block_until_ready(theirs(*arguments))
    assert len(jax.tree_util.tree_leaves(first)) == len(jax.tree_util.tree_leaves(second))
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        for i, call in enumerate((lambda: ours(*arguments),
                                  lambda: jax.block_until_ready(theirs(*arguments)))):
            begun = time.perf_counter()
            count = 0
            while count < 3 or time.perf_counter() - begun < 0.02:
                start = time.perf_counter()
                call()
                least[i] = min(least[i], time.perf_counter() - start)
                count += 1
    return least, ours, arguments


def slow_kernels(ours, arguments):
    """The kernels that take most of the time."""
    program, _ = next(iter(ours._programs.values()))
    engine = program._slots[0].engine
    engine.time_steps()
    ours(*arguments)
    sums = engine.print_times().split("\n\n")[1].splitlines()[1:-1]
    shares = [re.split(r"\s+", line.strip(), maxsplit=3) for line in sums]
    return ", ".join(f"{kernel} {share}" for _, _, share, kernel in shares[:2])


def page(where, results):
    """The results as a page, the slowest first."""
    lines = ["| ratio | function | Tremula | XLA | kernels | why |", "|---|---|---|---|---|---|"]
    for name, ours, theirs, kernels in sorted(results, key=lambda one: -one[1] / one[2]):
        reason = REASONS.get(kernels.split(" ")[0], "") if kernels else ""
        ratio = f"{ours / theirs:.2f}"
        lines.append(f"| {f'**{ratio}**' if kernels else ratio} | {name} | {1e3 * ours:.3f} | "
                     f"{1e3 * theirs:.3f} | {kernels} | {reason} |")
    return HEAD + where + "\n\n" + "\n".join(lines) + "\n"


def main():
    where = (f"{machine.cpu_model()}, {ARGUMENTS.threads} threads, load average "
             f"{machine.load_average()} at the start; JAX {jax.__version__}.")
    results = []
    print(f"JAX {jax.__version__}, {ARGUMENTS.threads} threads\n"
          f"{'ms a call':28} {'Tremula':>9} {'XLA':>9} {'ratio':>7}")
    slow = 0
    for name, (function, *arguments) in CASES.items():
        if ARGUMENTS.names and not any(part in name for part in ARGUMENTS.names):
            continue
        try:
            (ours, theirs), compiled, arguments = measure(function, arguments, ARGUMENTS.rounds)
        except Exception as error:
            print(f"{name:28} {type(error).__name__}: {str(error)[:150]}", flush=True)
            continue
        ratio = ours / theirs
        slow += ratio > SLOW
        why = slow_kernels(compiled, arguments) if ratio > SLOW else ""
        results.append((name, ours, theirs, why))
        print(f"{name:28} {1e3 * ours:9.3f} {1e3 * theirs:9.3f} {ratio:7.2f}  {why}", flush=True)
        if ARGUMENTS.output:
            pathlib.Path(ARGUMENTS.output).write_text(page(where, results))
    print(f"{slow} of {len(CASES)} take more than {SLOW:.0f} times as long as XLA")


if __name__ == "__main__":
    sys.exit(main())
