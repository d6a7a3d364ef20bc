"""Fixtures of the cases: Keras on IPUs next to stock Keras and NumPy, each file in a process of its
own (test_keras.py), because the programs of other folders turn TensorFlow 2's behaviour off."""

import own_ipus
import pytest

own_ipus.prepare()


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
