"""Fixtures of end-to-end tests: programs through TensorFlow, the plugin and libtremula.

A conftest.py imports them. The libraries come from TREMULA_LIBRARY_DIR, by default the release
build. TensorFlow is the one of the interpreter that runs pytest. The programs are TensorFlow 1
programs; those that need a process of their own get one from the fixture `script`.
"""

import atexit
import os
import pathlib
import shutil
import sys
import tempfile
import textwrap

import interpreter
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("TREMULA_LIBRARY_DIR", str(ROOT / "build/release/lib"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Locks of our own: tests must not wait for other programs' IPUs.
os.environ["TREMULA_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="tremula-test-")
atexit.register(shutil.rmtree, os.environ["TREMULA_RUNTIME_DIR"], ignore_errors=True)
if str(ROOT / "python") not in sys.path:
    sys.path.insert(0, str(ROOT / "python"))

import tremula._finder  # noqa: E402,F401  (serves tensorflow.python.ipu)
from tremula.tf.inner import versions  # noqa: E402

versions.prefer_legacy_keras()
import tensorflow.compat.v1 as tf  # noqa: E402
from tensorflow.python import ipu  # noqa: E402

tf.disable_v2_behavior()


def _configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(scope="session", autouse=True)
def configured():
    """One IPU, as most programs want it."""
    _configure(1)


@pytest.fixture
def devices(configured):
    """devices(n) configures /device:IPU:0 with n IPUs, devices([n, m]) two devices; afterwards
    there is one IPU again."""
    del configured
    yield _configure
    _configure(1)


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own for every test, and the same random numbers on the device whatever ran
    before. (TensorFlow's own on the CPU are others in every run.)"""
    ipu.utils.reset_ipu_seed(0)
    with tf.Graph().as_default() as one:
        yield one


@pytest.fixture
def on_ipu():
    """compile(function, inputs) inside an ipu_scope."""
    def build(function, inputs=None):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return ipu.ipu_compiler.compile(function, inputs)
    return build


@pytest.fixture
def session():
    """A session with one thread, which is where dead-locks would show."""
    def open_session():
        return tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1,
                                                intra_op_parallelism_threads=1))
    return open_session


@pytest.fixture
def script():
    """Runs a program in a process of its own; returns the completed process."""
    def run(text, **environment):
        prologue = os.environ.get("TREMULA_TEST_PROLOGUE", "")
        path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        return interpreter.run(
            ["-c", "import tremula._finder\n" + prologue + "\n" + textwrap.dedent(text)],
            env={**os.environ, "PYTHONPATH": path, **environment})
    return run
