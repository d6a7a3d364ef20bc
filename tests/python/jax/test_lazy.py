"""outputs="lazy": results that stay on an accelerator until somebody reads them. A third party's
CPU plugin stands for one."""

import gc
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_as_numpy_has_them():
    f = tremula.jax.jit(lambda tree: {"w": tree["w"] * 2, "n": tree["n"] + 1}, outputs="lazy")
    once = f({"w": W, "n": 3})
    assert type(once["w"]) is tremula.jax.LazyArray and repr(once["n"]).startswith("LazyArray(")
    twice = f(once)
    kept = np.asarray(twice["w"])
    np.testing.assert_array_equal(kept, 4 * W)
    assert int(twice["n"]) == 5 and twice["w"].shape == (3, 4) and len(twice["w"]) == 3
    np.testing.assert_array_equal(twice["w"] + once["w"], 6 * W)
    np.testing.assert_array_equal(np.asarray(twice["w"], np.float64)[1], 4 * W[1])
    np.testing.assert_array_equal(jnp.sum(jnp.asarray(twice["w"])), 4 * W.sum())
    assert float(twice["w"][2, 3]) == 44 and twice["w"][0, 1].dtype == np.float32
    with pytest.raises(ValueError):
        kept[0] = 1
    del once, twice
    gc.collect()
    f({"w": W, "n": 3})
    np.testing.assert_array_equal(kept, 4 * W)


def test_keys_and_compiled_functions():
    f = tremula.jax.jit(lambda key: (jax.random.split(key)[0], jax.random.normal(key, (4,))),
                        outputs="lazy")
    key, numbers = f(jax.random.key(3))
    np.testing.assert_array_equal(np.asarray(f.compile(key)(key)[1]), np.asarray(f(key)[1]))
    g = tremula.jax.compile(tremula.jax.jit(lambda x: -x, outputs="lazy"), numbers)
    np.testing.assert_array_equal(np.asarray(g(numbers)), -np.asarray(numbers))
    with pytest.raises(ValueError, match="or \"lazy\", not 'left'"):
        tremula.jax.jit(abs, outputs="left")


PROGRAM = """
import functools, jax, jax.numpy as jnp, numpy as np, tremula.jax
@functools.partial(tremula.jax.jit, donate_argnums=0, outputs=OUTPUTS)
def step(w, x):
    return w - 0.1 * jnp.tanh(x @ w), jnp.sum(x @ w)
random = np.random.default_rng(0)
w, x = random.normal(size=(2, 128, 128)).astype(np.float32)
for _ in range(4):
    w, loss = step(w, x)
    print(f"{float(loss):.3f}")
print(f"{np.abs(np.asarray(w)).sum():.2f}")
"""


def plugin():
    found = importlib.util.find_spec("lammps_jax_pjrt_cpu")
    if found is None:
        pytest.skip("lammps_jax_pjrt_cpu is not installed: no PJRT plugin to try")
    return str(pathlib.Path(found.origin).parent / "pjrt_c_api_cpu_plugin.so")


def test_weights_stay_on_an_accelerator():
    """Only the batch and the loss move, from the second step on."""
    outputs, moved = [], {}
    for kind, accelerator in (("numpy", ""), ("numpy", plugin()), ("lazy", plugin())):
        done = subprocess.run([sys.executable, "-c", PROGRAM.replace("OUTPUTS", repr(kind))],
                              env={**os.environ, "TREMULA_ACCELERATOR": accelerator,
                                   "POPLAR_LOG_LEVEL": "INFO"},
                              capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        outputs.append(np.array(done.stdout.split(), float))
        moved[kind] = re.findall(r"moved (\d+) arrays .* to cpu:0, (\d+) arrays", done.stderr)
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4)
    np.testing.assert_array_equal(outputs[2], outputs[1])
    assert moved == {"numpy": [("2", "2")] * 4, "lazy": [("2", "0")] + [("1", "0")] * 3}
