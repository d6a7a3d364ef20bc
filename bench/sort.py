"""Sorting beside XLA: one table of milliseconds a run and their ratio.

    python bench/sort.py [PART OF A NAME]...

Both compile the same HLO on this machine.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

ROUNDS = 5
TOOL = os.environ.get("TREMULA_BIN_DIR",
                      str(pathlib.Path(__file__).parents[1] / "build/release/bin")) + "/tremula"


def values(dtype, *shape):
    random = np.random.default_rng(0)
    if np.dtype(dtype).kind == "i":
        return random.integers(-2**31, 2**31 - 1, shape, dtype=dtype)
    return random.standard_normal(shape).astype(dtype)


MANY = 1 << 20
CASES = {
    "sort float32, a million": (lambda x: tf.sort(x), values("f4", MANY)),
    "sort int32, a million": (lambda x: tf.sort(x), values("i4", MANY)),
    "sort float16, a million": (lambda x: tf.sort(x), values("f2", MANY)),
    "argsort float32, a million": (lambda x: tf.argsort(x, stable=True), values("f4", MANY)),
    "sort 10000 rows of 100": (lambda x: tf.sort(x), values("f4", 10000, 100)),
    "argsort 1000 rows of 1000": (lambda x: tf.argsort(x, stable=True), values("f4", 1000, 1000)),
    "sort 1000 columns of 1000": (lambda x: tf.sort(x, axis=0), values("f4", 1000, 1000)),
    "10 best of a million": (lambda x: tf.math.top_k(x, 10), values("f4", MANY)),
    "10 best of 1000 in 1000 rows": (lambda x: tf.math.top_k(x, 10), values("f4", 1000, 1000)),
}


def time_xla(compiled, argument):
    compiled(argument)
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        tf.nest.map_structure(lambda t: t.numpy(), compiled(argument))
        taken.append(time.perf_counter() - start)
    return 1000 * min(taken)


def time_tremula(proto, argument, folder):
    (folder / "program.pb").write_bytes(proto)
    np.save(folder / "x.npy", argument)

    def run(*words):
        return subprocess.run([TOOL, *words], cwd=folder, check=True, text=True,
                              capture_output=True).stderr

    run("compile", "program.pb", "-o", "program.poplar_exec")
    printed = run("run", "program.poplar_exec", "--input", "0=x.npy", "--repeat", str(ROUNDS),
                  "--output", "out")
    return float(re.search(r"the fastest ([0-9.]+) ms", printed)[1])


def main():
    wanted = sys.argv[1:]
    print(f"{'milliseconds a run, the fastest of ' + str(ROUNDS):40} Tremula      XLA   ratio")
    for name, (function, argument) in CASES.items():
        if wanted and not any(part in name for part in wanted):
            continue
        compiled = tf.function(function, jit_compile=True, autograph=False)
        tensor = tf.constant(argument)
        proto = compiled.experimental_get_compiler_ir(tensor)(stage="hlo_serialized")
        with tempfile.TemporaryDirectory() as folder:
            ours = time_tremula(proto, argument, pathlib.Path(folder))
        peer = time_xla(compiled, tensor)
        print(f"{name:40} {ours:7.2f}  {peer:7.2f}  {ours / peer:6.2f}", flush=True)


if __name__ == "__main__":
    main()
