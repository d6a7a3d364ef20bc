"""What create_ipu_config() of the first releases returns: an IPUConfig that can be read as the
original's IpuOptions, the protocol buffer that it was then.
"""

from tremula.tf.ipu.config import IPUConfig, KeyId
from tremula.tf.plugin.poplar.driver import config_pb2, threestate_pb2

_THREESTATE = {"NO_MERGING": threestate_pb2.THREESTATE_OFF, "MERGE": threestate_pb2.THREESTATE_ON,
               "IF_BENEFICIAL": threestate_pb2.THREESTATE_UNDEFINED}


class LegacyOptions(IPUConfig, config_pb2.IpuOptions):
    """An IPUConfig whose other attributes are the fields of IpuOptions, to be read.

    Raises ValueError for a name that is neither.
    """

    def __init__(self):
        super().__init__()
        self.__dict__["_sets_floating_point"] = False

    @property
    def snapshot(self):
        """The configuration, checked: see IPUConfig."""
        return self._create_snapshot()

    @property
    def device_config(self):
        """One DeviceConfig for each TensorFlow device."""
        counts, ids = self.auto_select_ipus, self.select_ipus
        return [config_pb2.DeviceConfig(auto_count=one) for one in _as_list(counts)] \
            + [config_pb2.DeviceConfig(cfg_index=one) for one in _as_list(ids)]

    @property
    def profiling(self):
        """What is recorded: it can be set too."""
        return _Profiling(self)

    @property
    def verified_transfers(self):
        """Keys and ids of transfers."""
        return _Transfers(self._verified_transfers)

    @property
    def floating_point_behaviour(self):
        """The category of that name, and whether it was set at all."""
        return _FloatingPoint(self)

    @property
    def has_ipu_version(self):
        """Whether there is an ipu_version."""
        return bool(self.device_connection.version)

    @property
    def ipu_version(self):
        """The number of the version, 0 for none."""
        version = self.device_connection.version.removeprefix("ipu")
        return int(version) if version.isdigit() else 0

    @property
    def remote_buffer_merging_mode(self):
        """A ThreeState."""
        return _THREESTATE[self.optimizations.merge_remote_buffers.name]

    def __getattr__(self, name):  # only called for what is not there
        if not name.startswith("_"):
            try:
                return config_pb2.field(self._to_named(), name)
            except AttributeError:
                pass
        return super().__getattr__(name)


class _FloatingPoint:
    def __init__(self, options):
        self.__dict__["_options"] = options

    @property
    def flags_set(self):
        return self._options._sets_floating_point

    def __getattr__(self, name):
        return getattr(self._options.__dict__["floating_point_behaviour"], name)

    def __setattr__(self, name, value):
        self._options.__dict__["_sets_floating_point"] = True
        setattr(self._options.__dict__["floating_point_behaviour"], name, value)


class _Profiling:
    """IpuOptions.profiling: names of its own for the options of the category _profiling."""

    _NAMES = {
        "enable_ipu_trace_events": "enable_ipu_events",
        "enable_poplar_reports_text": "use_poplar_text_report",
        "enable_poplar_reports_cbor": "use_poplar_cbor_report",
        "enable_poplar_graph": "enable_poplar_serialized_graph",
        "execution_trace_type": "profile_execution",
        "graph_options": "graph_poplar_options",
        "execution_options": "execution_poplar_options",
    }

    def __init__(self, options):
        self.__dict__["_category"] = options._profiling

    def __getattr__(self, name):
        value = getattr(self._category, self._NAMES.get(name, name))
        if isinstance(value, dict):
            return [config_pb2.PoplarOptionFlag(*one) for one in value.items()]
        if name == "execution_trace_type":
            return config_pb2.IpuExecutionProfileType[value.name]
        return value

    def __setattr__(self, name, value):
        category, name = self._category, self._NAMES.get(name, name)
        kind = type(getattr(category, name))
        setattr(category, name, kind(value) if name == "profile_execution" else value)


class _Transfers:
    def __init__(self, category):
        self._category = category
        # Ids of checkpoints begin with 0 and do not rise.
        self.checkpoint_in, self.checkpoint_out = KeyId(0, 0), KeyId(0, 0)

    def __getattr__(self, name):
        value = getattr(self._category, name)
        if isinstance(value, dict):
            return {feed: KeyId(*one) for feed, one in value.items()}
        return KeyId(*value) if isinstance(value, tuple) else value


def _as_list(selection):
    return [selection] if isinstance(selection, int) else list(selection)
