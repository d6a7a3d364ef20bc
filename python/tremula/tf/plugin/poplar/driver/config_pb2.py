"""IpuOptions and the enum of synthetic data, in place of the original's protocol buffers."""

import enum
import json


class SyntheticDataCategory(enum.IntEnum):
    """What data can be synthetic: see `ipu.utils.use_synthetic_data_for`."""
    Infeed = 0
    Outfeed = 1
    Seed = 2
    HostEmbedding = 3
    Parameters = 4


class DeviceConfig:
    """One TensorFlow device: `auto_count` IPUs of any kind, or the ones of the id `cfg_index`."""

    def __init__(self, auto_count=0, cfg_index=0):
        self.auto_count = auto_count
        self.cfg_index = cfg_index
        self._by_id = auto_count == 0

    def WhichOneof(self, _):
        """Which of the two is set: "auto_count" or "cfg_index"."""
        return "cfg_index" if self._by_id else "auto_count"


class Profiling:
    """What is recorded in events, as bools of a snapshot's options."""

    def __init__(self, options):
        super().__setattr__("_options", options)

    def __getattr__(self, name):
        return self._options[self._path(name)]

    def __setattr__(self, name, value):
        self._options[self._path(name)] = bool(value)

    def _path(self, name):
        path = {"enable_ipu_trace_events": "_profiling.enable_ipu_events",
                "enable_io_trace": "_profiling.enable_io_trace",
                "enable_compilation_trace": "_profiling.enable_compilation_trace"}.get(name)
        if path is None:
            raise AttributeError(f"IpuOptions.profiling has no attribute {name!r}: its options are "
                                 "those of IPUConfig._profiling.")
        return path


class IpuOptions:
    """A checked configuration of the IPU system, made by an IPUConfig.

    `snapshot` is the configuration as a dict (`tremula.tf.ipu.config` describes it), None for one
    that is not filled yet. Serialised, it is JSON.
    """

    def __init__(self, snapshot=None):
        self.snapshot = snapshot

    @property
    def device_config(self):
        """One DeviceConfig for each TensorFlow device."""
        return [DeviceConfig(auto_count=device.get("auto", 0), cfg_index=device.get("id", 0))
                for device in (self.snapshot or {}).get("devices", [])]

    @property
    def profiling(self):
        """A Profiling, which changes this configuration. Raises ValueError for one that is not
        filled yet."""
        if not self.snapshot:
            raise ValueError("This IpuOptions is empty: make it with an IPUConfig.")
        return Profiling(self.snapshot["options"])

    def SerializeToString(self):
        """The configuration as bytes."""
        return json.dumps(self.snapshot, sort_keys=True).encode()

    def ParseFromString(self, data):
        """Fills this object from SerializeToString()'s bytes. Raises ValueError for others."""
        self.snapshot = json.loads(data)

    @classmethod
    def FromString(cls, data):
        """A new object, filled from SerializeToString()'s bytes."""
        options = cls()
        options.ParseFromString(data)
        return options

    def __eq__(self, other):
        return isinstance(other, IpuOptions) and self.snapshot == other.snapshot

    def __repr__(self):
        return f"IpuOptions({self.snapshot!r})"
