"""Fixtures of the cases: TensorFlow 2 programs, each file in a process of its own
(test_tensorflow2.py), because the programs of other folders turn TensorFlow 2's behaviour off."""

import own_ipus
import pytest


@pytest.fixture(scope="session")
def ipu():
    """The IPU API, over virtual IPUs of our own."""
    return own_ipus.load()


@pytest.fixture
def devices(ipu):
    """devices(n) or devices([n, m]) configures devices of so many IPUs, which record events."""
    def configure(ipus):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
        config._profiling.enable_ipu_events = True
        config.configure_ipu_system()
        _events(ipu)
    return configure


@pytest.fixture
def strategy(ipu, devices):
    """A strategy on one IPU."""
    devices(1)
    return ipu.ipu_strategy.IPUStrategy()


@pytest.fixture
def events(ipu):
    """events(): the names of what the devices have done since it was last called."""
    return lambda: _events(ipu)


def _events(ipu):
    import tensorflow as tf
    from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    with tf.device("/device:CPU:0"):
        found = gen_ipu_ops.ipu_event_trace().numpy()
    names = {getattr(IpuTraceEvent, name): name for name in (
        "COMPILE_BEGIN", "COMPILE_END", "LOAD_ENGINE", "HOST_TO_DEVICE_TRANSFER",
        "DEVICE_TO_HOST_TRANSFER", "EXECUTE")}
    return [names[one] for one in ipu.utils.extract_all_types_from_event_trace(found)]
