"""IpuOptions and its enums, in place of the original's protocol buffers."""

import collections
import enum
import json

from tremula.tf.ipu import config_options


class _Numbers(enum.IntEnum):
    """An enum with the methods that one of a protocol buffer has."""

    @classmethod
    def Name(cls, number):
        """The name of a value. Raises ValueError if there is no such value."""
        return cls(number).name

    @classmethod
    def Value(cls, name):
        """The value of a name. Raises ValueError if there is no such name."""
        if name not in cls.__members__:
            raise ValueError(f"Enum {cls.__name__} has no value defined for name {name!r}")
        return int(cls[name])

    @classmethod
    def keys(cls):
        """The names."""
        return list(cls.__members__)

    @classmethod
    def values(cls):
        """The values, in the order of keys()."""
        return [int(one) for one in cls]

    @classmethod
    def items(cls):
        """(name, value) of each."""
        return list(zip(cls.keys(), cls.values()))


def _numbers(name, kind):
    return _Numbers(name, {one.name: one.value for one in kind}, module=__name__)


IpuDeviceConnectionType = _numbers("IpuDeviceConnectionType", config_options.DeviceConnectionType)
IpuExecutionProfileType = _numbers("IpuExecutionProfileType", config_options.ExecutionProfileType)
IpuSchedulingAlgorithm = _numbers("IpuSchedulingAlgorithm", config_options.SchedulingAlgorithm)
IpuSelectionOrder = _numbers("IpuSelectionOrder", config_options.SelectionOrder)

PoplarOptionFlag = collections.namedtuple("PoplarOptionFlag", "option value")

# Field of IpuOptions -> option of an IPUConfig; with "not " before it, the opposite.
_FIELDS = {
    "selection_order": "selection_order",
    "serialization_folder": "serialization_output_folder",
    "compilation_options": "compilation_poplar_options",
    "gcl_options": "gcl_poplar_options",
    "convolution_options": "convolutions.poplar_options",
    "matmul_options": "matmuls.poplar_options",
    "pooling_options": "pooling.poplar_options",
    "slice_options": "slices.poplar_options",
    "clear_matmul_pass_type": "matmuls.clear_pass_type",
    "ipu_version": "device_connection.version",
    "device_connection_type": "device_connection.type",
    "enable_remote_buffers_without_device": "device_connection.enable_remote_buffers",
    "enable_experimental_remote_buffer_embedding": "experimental.enable_remote_buffer_embedding",
    "enable_experimental_prng_stability": "experimental.enable_prng_stability",
    "multi_replica_process_count": "experimental.multi_replica_distribution.process_count",
    "multi_replica_process_index": "experimental.multi_replica_distribution.process_index",
    "num_io_tiles": "io_tiles.num_io_tiles",
    "place_ops_on_io_tiles": "io_tiles.place_ops_on_io_tiles",
    "io_tile_available_memory_proportion": "io_tiles.available_memory_proportion",
    "use_stable_norm_statistics": "norms.use_stable_statistics",
    "experimental_distributed_batch_norm_replica_group_size":
        "norms.experimental.distributed_batch_norm_replica_group_size",
    "prefetch_data_streams": "optimizations.prefetch_data_streams",
    "enable_multi_slice_combiner": "optimizations.combine_embedding_lookups",
    "enable_matmul_combiner": "optimizations.combine_matmuls",
    "max_cross_replica_sum_buffer_size": "optimizations.maximum_cross_replica_sum_buffer_size",
    "max_reduce_scatter_buffer_size": "optimizations.maximum_reduce_scatter_buffer_size",
    "max_inter_ipu_copies_buffer_size": "optimizations.maximum_inter_ipu_copies_buffer_size",
    "max_send_recv_cluster_size": "optimizations.maximum_send_recv_cluster_size",
    "max_reduce_many_buffer_size": "optimizations.maximum_reduce_many_buffer_size",
    "max_all_gather_buffer_size": "optimizations.maximum_all_gather_buffer_size",
    "minimum_remote_tensor_size": "optimizations.minimum_remote_tensor_size",
    "remote_buffer_merging_mode": "optimizations.merge_remote_buffers",
    "disable_gather_simplifier": "not optimizations.enable_gather_simplifier",
    "triangular_solve_expander_block_size": "optimizations.triangular_solve_expander_block_size",
    "cholesky_block_size": "optimizations.cholesky_block_size",
    "enable_fast_math": "optimizations.enable_fast_math",
    "enable_dynamic_slice_replacement": "optimizations.enable_dynamic_slice_replacement",
    "max_scheduler_lookahead_depth": "scheduling.maximum_scheduler_lookahead_depth",
    "max_scheduler_search_space_size": "scheduling.maximum_scheduler_search_space_size",
    "speed_size_config.allow_recompute": "allow_recompute",
    "speed_size_config.always_rearrange_copies_on_the_host":
        "experimental.always_rearrange_copies_on_the_host",
    "speed_size_config.disable_graph_outlining": "not optimizations.enable_graph_outlining",
    "speed_size_config.merge_infeed_io_copies": "optimizations.merge_infeed_io_copies",
    "speed_size_config.scheduler_selection": "scheduling.algorithm",
    "floating_point_behaviour.inv": "floating_point_behaviour.inv",
    "floating_point_behaviour.div0": "floating_point_behaviour.div0",
    "floating_point_behaviour.oflo": "floating_point_behaviour.oflo",
    "floating_point_behaviour.esr": "floating_point_behaviour.esr",
    "floating_point_behaviour.nanoo": "floating_point_behaviour.nanoo",
    "ipu_model_config.compile_ipu_code": "ipu_model.compile_ipu_code",
    "ipu_model_config.tiles_per_ipu": "ipu_model.tiles_per_ipu",
    "ipu_model_config.ipu_model_version": "ipu_model.version",
    "algebraic_simplifier_config.enable_fast_math": "optimizations.math.fast",
    "algebraic_simplifier_config.enable_dot_strength": "optimizations.math.dot_strength",
    "verified_transfers.enabled": "_verified_transfers.enabled",
}
_TYPES = {option.path: option.type for option in config_options.OPTIONS}


class SyntheticDataCategory(_Numbers):
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


class _Fields:
    """The fields of IpuOptions whose names begin with `prefix`."""

    def __init__(self, options, prefix):
        self._options, self._prefix = options, prefix

    def __getattr__(self, name):
        return field(self._options, self._prefix + name)


def field(options, name):
    """The value of a field, for the options of a snapshot. Raises AttributeError if there is no
    such field."""
    path = _FIELDS.get(name)
    if path is None:
        if any(one.startswith(name + ".") for one in _FIELDS):
            return _Fields(options, name + ".")
        raise AttributeError(f"IpuOptions has no field {name!r}.")
    path = path.rpartition("not ")[2]
    value, kind = options[path], _TYPES[path]
    if kind is dict:
        return [PoplarOptionFlag(*one) for one in value.items()]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[value].value
    return not value if path != _FIELDS[name] else value


class IpuOptions:
    """A checked configuration of the IPU system, made by an IPUConfig.

    `snapshot` is the configuration as a dict (`ipu.config` describes it), None for one
    that is not filled yet. Serialised, it is JSON. The fields of the original are there to be read.
    """

    creator_id = 1  # made by this API

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

    def __getattr__(self, name):  # only called for what is not there
        if name.startswith("__") or not self.__dict__.get("snapshot"):
            raise AttributeError(name)
        return field(self.snapshot["options"], name)

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
