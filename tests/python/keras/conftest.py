"""Keras on IPUs, next to stock Keras and NumPy.

The library comes from TREMULA_LIBRARY_DIR, an installed package, or the release build.
"""

import os
import pathlib
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in (ROOT / "python", ROOT / "tests/python/ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(autouse=True)
def tensorflow_2():
    """Every test in eager mode, with seeds."""
    import eager
    with eager.tensorflow_2():
        import tensorflow as tf
        tf.keras.utils.set_random_seed(7)
        yield


@pytest.fixture
def strategy():
    """An IPUStrategy over one IPU."""
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    yield ipu.ipu_strategy.IPUStrategy()
    ipu.config.reset_ipu_configuration()
