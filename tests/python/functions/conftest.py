"""Fixtures of the cases: TensorFlow 2 programs, each file in a process of its own
(test_tensorflow2.py), because the programs of other folders turn TensorFlow 2's behaviour off."""

import atexit
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def ipu():
    """The IPU API, over virtual IPUs of our own."""
    os.environ.setdefault("TREMULA_LIBRARY_DIR", str(ROOT / "build/release/lib"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["TREMULA_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="tremula-test-")
    atexit.register(shutil.rmtree, os.environ["TREMULA_RUNTIME_DIR"], ignore_errors=True)
    if str(ROOT / "python") not in sys.path:
        sys.path.insert(0, str(ROOT / "python"))
    import tremula._finder  # noqa: F401  (serves tensorflow.python.ipu)
    from tremula.tf.inner import versions
    versions.prefer_legacy_keras()
    from tensorflow.python import ipu as module
    return module


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
