"""Fixtures of the cases: Keras on IPUs next to stock Keras and NumPy, each file in a process of its
own (test_keras.py), because the programs of other folders turn TensorFlow 2's behaviour off."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("TREMULA_LIBRARY_DIR", str(ROOT / "build/release/lib"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if str(ROOT / "python") not in sys.path:
    sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture
def seed():
    """The same random numbers in every test that asks for it."""
    import tensorflow as tf
    tf.keras.utils.set_random_seed(7)


@pytest.fixture
def ipus():
    """How many IPUs `strategy` has; a file may have a fixture of its own."""
    return 1


@pytest.fixture
def strategy(ipus):
    """An IPUStrategy."""
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    yield ipu.ipu_strategy.IPUStrategy()
    ipu.config.reset_ipu_configuration()
