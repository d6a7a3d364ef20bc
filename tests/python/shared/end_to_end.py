"""Fixtures of end-to-end tests: programs through TensorFlow, the plugin and libtremula.

A conftest.py imports them. The programs are TensorFlow 1 programs; those that need a process of
their own get one from the fixture `script`.
"""

import os
import textwrap

import built
import interpreter
import own_ipus
import pytest

ipu = own_ipus.load()
import tensorflow.compat.v1 as tf  # noqa: E402

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
        return interpreter.run(["-c", "import tremula._finder\n" + textwrap.dedent(text)],
                               env={**os.environ, **built.variables(), **environment})
    return run
