"""The IPU's own operations, in programs on an IPU, next to TensorFlow's, Keras's and numpy's.

The libraries come from TREMULA_LIBRARY_DIR, by default the release build. The programs are
TensorFlow 1 programs in one process.
"""

import os
import pathlib
import sys
import tempfile

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("TREMULA_LIBRARY_DIR", str(ROOT / "build/release/lib"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Locks of our own: tests must not wait for other programs' IPUs.
os.environ["TREMULA_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="tremula-test-")
if str(ROOT / "python") not in sys.path:
    sys.path.insert(0, str(ROOT / "python"))

import tremula._finder  # noqa: E402,F401  (serves tensorflow.python.ipu)
from tremula.tf import compat  # noqa: E402

compat.prefer_legacy_keras()
import tensorflow.compat.v1 as tf  # noqa: E402
from tensorflow.python import ipu  # noqa: E402

tf.disable_v2_behavior()


@pytest.fixture(scope="session", autouse=True)
def configured():
    """One IPU."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own for every test."""
    with tf.Graph().as_default() as one:
        yield one


class Runner:
    """Runs a function of tensors: compiled for an IPU, or plainly on the CPU."""

    def __call__(self, function, *arrays, where="ipu", runs=1, variables=None):
        """function(*tensors) for arrays, as a list of arrays. `variables`: {name: value} that the
        variables get. With runs > 1 a list of such lists."""
        with tf.device("cpu"):
            inputs = [tf.placeholder(one.dtype, one.shape) for one in arrays]
        if where == "ipu":
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                results = ipu.ipu_compiler.compile(function, inputs)
        else:
            with tf.device("cpu"), tf.variable_scope("", use_resource=True):
                results = function(*inputs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for variable in tf.global_variables():
                for name, value in (variables or {}).items():
                    if variable.op.name.endswith(name):
                        variable.load(value, session)
            feed = dict(zip(inputs, arrays))
            found = [session.run(results, feed) for _ in range(runs)]
        found = [one if isinstance(one, (list, tuple)) else [one] for one in found]
        return found if runs > 1 else found[0]


@pytest.fixture
def run():
    return Runner()


@pytest.fixture
def random():
    """random(*shape) -> float32 numbers around 0; random.dtype changes the type."""
    generator = np.random.default_rng(7)
    return lambda *shape, dtype=np.float32: generator.standard_normal(shape).astype(dtype)
