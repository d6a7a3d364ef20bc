"""Makes the source tree importable as an installed Tremula would be, and fakes the runtime."""

import json
import pathlib
import sys
import types

import pytest

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"

if str(PYTHON) not in sys.path:
    sys.path.insert(0, str(PYTHON))

import tremula._finder  # noqa: E402,F401


class FakeRuntime(types.ModuleType):
    """Stands in for tremula.tf.runtime and keeps what it is asked for."""

    def __init__(self):
        super().__init__("tremula.tf.runtime")
        self.calls = []

    def configure(self, snapshot_json):
        self.calls.append(("configure", json.loads(snapshot_json)))

    def reset_configuration(self):
        self.calls.append(("reset_configuration",))

    def reset_seed(self, seed, device_ordinal, identical):
        self.calls.append(("reset_seed", seed, device_ordinal, identical))

    def clear_compilation_caches(self):
        self.calls.append(("clear_compilation_caches",))


@pytest.fixture
def runtime(monkeypatch):
    """A fake runtime, and no configuration in force before and after the test."""
    import tremula.tf
    from tremula.tf.ipu import config
    fake = FakeRuntime()
    monkeypatch.setitem(sys.modules, "tremula.tf.runtime", fake)
    monkeypatch.setattr(tremula.tf, "runtime", fake, raising=False)
    monkeypatch.setattr(config, "_current", None)
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    return fake


@pytest.fixture
def eagerly():
    """TensorFlow 2 behaviour, also where other tests of the process have switched it off."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    with ops.Graph().as_default(), context.eager_mode():
        yield
