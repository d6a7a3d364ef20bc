"""The configuration functions of the first releases, deprecated there since IPUConfig.

Each takes the config as `opts`, sets options of it and returns it. Arguments that a later release
dropped are accepted. Reports and events: docs/events.md. Verified transfers are kept in the config
and acted on by nothing.
"""

import enum
import functools
import inspect

from tremula.tf.ipu.config import (DeviceConnectionType, ExecutionProfileType,
                                   MergeRemoteBuffersBehaviour, SchedulingAlgorithm,
                                   SelectionOrder, StochasticRoundingBehaviour)
from tremula.tf.ipu.legacy_options import LegacyOptions
from tremula.tf.runtime.base import checks


def _flags_may_be_numbers(function):
    """A decorator: an integer will do for an argument whose default is a bool. (The original kept
    these in a protocol buffer, which takes one.)"""
    signature = inspect.signature(function)
    flags = [name for name, parameter in signature.parameters.items()
             if isinstance(parameter.default, bool)]

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:  # Python's own message names the function too
            raise TypeError(f"{function.__name__}() {error}") from None
        for name in flags:
            value = given.arguments.get(name)
            if hasattr(value, "__index__") and not isinstance(value, enum.Enum):
                given.arguments[name] = bool(value)
        return function(*given.args, **given.kwargs)

    return call


@_flags_may_be_numbers
def create_ipu_config(profiling=False, enable_ipu_events=False, use_poplar_text_report=False,
                      use_poplar_cbor_report=False, profile_execution=None,
                      enable_poplar_serialized_graph=False, report_every_nth_execution=0,
                      max_report_size=0x10000000, report_directory="",
                      scheduler_selection=SchedulingAlgorithm.CHOOSE_BEST,
                      always_rearrange_copies_on_the_host=False, merge_infeed_io_copies=False,
                      disable_graph_convolution_caching=False, disable_graph_outlining=False,
                      retain_control_dependencies=False, max_cross_replica_sum_buffer_size=0,
                      max_inter_ipu_copies_buffer_size=0, max_scheduler_lookahead_depth=5,
                      max_scheduler_search_space_size=64, prefetch_data_streams=True,
                      selection_order=SelectionOrder.AUTO,
                      enable_experimental_remote_buffer_embedding=False):
    """A new IPUConfig with these options, which can be read as IpuOptions too.

    `scheduler_selection` may be a SchedulingAlgorithm or its older name as text, such as
    "Clustering". Raises ValueError for profiling settings that exclude each other.
    """
    del disable_graph_convolution_caching, retain_control_dependencies
    if profiling and enable_ipu_events:
        raise ValueError("`profiling` and `enable_ipu_events` are mutually exclusive.")
    if profile_execution and not profiling:
        raise ValueError("`profiling` is required when `profile_execution` is set.")
    if use_poplar_text_report and use_poplar_cbor_report:
        raise ValueError("`use_poplar_text_report` and `use_poplar_cbor_report` are mutually "
                         "exclusive.")
    opts = LegacyOptions()
    reports = opts._profiling
    reports.profiling = profiling
    reports.enable_ipu_events = enable_ipu_events
    reports.use_poplar_text_report = use_poplar_text_report
    reports.use_poplar_cbor_report = use_poplar_cbor_report
    reports.profile_execution = _profile(profile_execution)
    reports.enable_poplar_serialized_graph = enable_poplar_serialized_graph
    reports.report_every_nth_execution = report_every_nth_execution
    reports.max_report_size = max_report_size
    reports.report_directory = report_directory
    opts.scheduling.algorithm = _algorithm(scheduler_selection)
    opts.scheduling.maximum_scheduler_lookahead_depth = max_scheduler_lookahead_depth
    opts.scheduling.maximum_scheduler_search_space_size = max_scheduler_search_space_size
    opts.experimental.always_rearrange_copies_on_the_host = always_rearrange_copies_on_the_host
    opts.experimental.enable_remote_buffer_embedding = enable_experimental_remote_buffer_embedding
    opts.optimizations.merge_infeed_io_copies = merge_infeed_io_copies
    opts.optimizations.enable_graph_outlining = not disable_graph_outlining
    opts.optimizations.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    opts.optimizations.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    opts.optimizations.prefetch_data_streams = prefetch_data_streams
    opts.selection_order = selection_order or SelectionOrder.AUTO
    opts.optimizations.merge_remote_buffers = MergeRemoteBuffersBehaviour.NO_MERGING
    return opts


def set_serialization_options(opts, output_folder=""):
    """Sets `serialization_output_folder`."""
    opts.serialization_output_folder = output_folder
    return opts


@_flags_may_be_numbers
def set_optimization_options(opts, combine_embedding_lookups=False, combine_matmuls=False,
                             max_cross_replica_sum_buffer_size=0,
                             max_reduce_scatter_buffer_size=0,
                             max_inter_ipu_copies_buffer_size=0, max_send_recv_cluster_size=0,
                             minimum_remote_tensor_size=128,
                             merge_remote_buffers=MergeRemoteBuffersBehaviour.NO_MERGING,
                             gather_simplifier=True, triangular_solve_expander_block_size=0,
                             cholesky_block_size=0, enable_fast_math=False):
    """Sets `optimizations`. `merge_remote_buffers` may be a bool, as it was at first."""
    if isinstance(merge_remote_buffers, bool):
        merge_remote_buffers = (MergeRemoteBuffersBehaviour.MERGE if merge_remote_buffers
                                else MergeRemoteBuffersBehaviour.NO_MERGING)
    chosen = opts.optimizations
    chosen.combine_embedding_lookups = combine_embedding_lookups
    chosen.combine_matmuls = combine_matmuls
    chosen.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    chosen.maximum_reduce_scatter_buffer_size = max_reduce_scatter_buffer_size
    chosen.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    chosen.maximum_send_recv_cluster_size = max_send_recv_cluster_size
    chosen.minimum_remote_tensor_size = minimum_remote_tensor_size
    chosen.merge_remote_buffers = merge_remote_buffers
    chosen.enable_gather_simplifier = gather_simplifier
    chosen.triangular_solve_expander_block_size = triangular_solve_expander_block_size
    chosen.cholesky_block_size = cholesky_block_size
    chosen.math.fast = enable_fast_math
    return opts


@_flags_may_be_numbers
def set_norm_options(opts, use_stable_statistics=False,
                     experimental_distributed_batch_norm_replica_group_size=1):
    """Sets `norms`."""
    opts.norms.use_stable_statistics = use_stable_statistics
    opts.norms.experimental.distributed_batch_norm_replica_group_size = (
        experimental_distributed_batch_norm_replica_group_size)
    return opts


@_flags_may_be_numbers
def set_transfer_options(opts, use_verified_transfers=False):
    """Asks for checked transfers with the host."""
    opts._verified_transfers.enabled = use_verified_transfers
    return opts


def set_verification_options(opts, verification_options):
    """Sets the keys and ids of checked transfers, from a VerificationOptions."""
    chosen = opts._verified_transfers
    for name in ("inputs", "input_parameters", "outputs", "output_parameters"):
        setattr(chosen, name, _key(getattr(verification_options, name)))
    for name in ("infeeds", "outfeeds"):
        setattr(chosen, name, {feed: _key(key) for feed, key
                               in getattr(verification_options, name).items()})
    return opts


def set_compilation_options(opts, compilation_options=None):
    """Adds to `compilation_poplar_options`."""
    return _add(opts, opts.compilation_poplar_options, compilation_options, "compilation_options")


def set_convolution_options(opts, convolution_options=None):
    """Adds to `convolutions.poplar_options`."""
    return _add(opts, opts.convolutions.poplar_options, convolution_options, "convolution_options")


@_flags_may_be_numbers
def set_matmul_options(opts, matmul_options=None, clear_pass_type=False):
    """Adds to `matmuls.poplar_options` and sets `matmuls.clear_pass_type`."""
    opts.matmuls.clear_pass_type = clear_pass_type
    return _add(opts, opts.matmuls.poplar_options, matmul_options, "matmul_options")


def set_pooling_options(opts, pooling_options=None):
    """Adds to `pooling.poplar_options`."""
    return _add(opts, opts.pooling.poplar_options, pooling_options, "pooling_options")


def _takes_graph_and_execution(function):
    """A decorator: two dicts by position are the last two arguments, as SDK 2.1 had it."""
    @functools.wraps(function)
    def call(opts, *options, **named):
        if len(options) == 2 and not named:
            options = (None, *options)
        return function(opts, *options, **named)

    return call


@_takes_graph_and_execution
def set_report_options(opts, report_options=None, graph_options=None, execution_options=None):
    """Adds options of reports; `report_options` are for both kinds."""
    _add(opts, opts._profiling.graph_poplar_options, report_options, "report_options")
    _add(opts, opts._profiling.execution_poplar_options, report_options, "report_options")
    _add(opts, opts._profiling.graph_poplar_options, graph_options, "graph_options")
    return _add(opts, opts._profiling.execution_poplar_options, execution_options,
                "execution_options")


def set_gcl_options(opts, num_io_tiles=0, gcl_options=None):
    """Adds to `gcl_poplar_options`; `num_io_tiles`, where set, is `io_tiles.num_io_tiles`.

    The later form `set_gcl_options(opts, gcl_options)` is understood as well.
    """
    if isinstance(num_io_tiles, dict):
        num_io_tiles, gcl_options = 0, num_io_tiles
    if num_io_tiles:
        opts.io_tiles.num_io_tiles = num_io_tiles
    return _add(opts, opts.gcl_poplar_options, gcl_options, "gcl_options")


@_flags_may_be_numbers
def set_ipu_model_options(opts, compile_ipu_code=True, tiles_per_ipu=None,
                          ipu_model_version="ipu2"):
    """Sets `ipu_model`."""
    opts.ipu_model.compile_ipu_code = compile_ipu_code
    opts.ipu_model.tiles_per_ipu = tiles_per_ipu or 0
    opts.ipu_model.version = ipu_model_version or "ipu2"
    return opts


@_flags_may_be_numbers
def set_recomputation_options(opts, allow_recompute=True, allow_stateful_recompute=None):
    """Sets `allow_recompute`."""
    del allow_stateful_recompute
    opts.allow_recompute = allow_recompute
    return opts


@_flags_may_be_numbers
def set_floating_point_behaviour_options(opts, inv=True, div0=True, oflo=True, esr=True,
                                         nanoo=True):
    """Sets `floating_point_behaviour`; `esr` is a bool or a StochasticRoundingBehaviour."""
    chosen = opts.floating_point_behaviour
    chosen.inv, chosen.div0, chosen.oflo, chosen.nanoo = inv, div0, oflo, nanoo
    chosen.esr = (StochasticRoundingBehaviour.from_bool(esr) if isinstance(esr, bool) else esr)
    return opts


def set_io_tile_options(opts, num_io_tiles, place_ops_on_io_tiles=None,
                        io_tile_available_memory_proportion=0.9):
    """Sets `io_tiles`."""
    opts.io_tiles.num_io_tiles = num_io_tiles
    if place_ops_on_io_tiles is not None:
        opts.io_tiles.place_ops_on_io_tiles = checks.boolean("place_ops_on_io_tiles",
                                                             place_ops_on_io_tiles)
    opts.io_tiles.available_memory_proportion = io_tile_available_memory_proportion
    return opts


@_flags_may_be_numbers
def set_ipu_connection_type(opts, connection_type=DeviceConnectionType.ALWAYS, ipu_version="",
                            enable_remote_buffers=False):
    """Sets `device_connection`. `ipu_version` may be the number 1 or 2, as it was at first.

    Raises ValueError where nothing is attached to and no version says what to compile for.
    """
    if connection_type in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE) \
            and ipu_version in ("", None):
        raise ValueError("`ipu_version` must be set when `connection_type` is "
                         "DeviceConnectionType.NEVER or DeviceConnectionType.PRE_COMPILE.")
    opts.device_connection.type = connection_type or DeviceConnectionType.ALWAYS
    opts.device_connection.version = (f"ipu{ipu_version}" if isinstance(ipu_version, int)
                                      else ipu_version or "")
    opts.device_connection.enable_remote_buffers = enable_remote_buffers
    return opts


def set_experimental_multi_replica_distribution_options(opts, process_count, process_index):
    """Sets `experimental.multi_replica_distribution`."""
    opts.experimental.multi_replica_distribution.process_count = process_count
    opts.experimental.multi_replica_distribution.process_index = process_index
    return opts


def auto_select_ipus(opts, num_ipus, sharded=None, number_of_replicas=None):
    """Sets `auto_select_ipus`: a number of IPUs, or a list with one for each device.

    `sharded` and `number_of_replicas` are of the first releases: what a program does with its
    IPUs says its sharding.

    Raises Exception if the IPUs are selected already.
    """
    del sharded, number_of_replicas
    _refuse_second_selection(opts)
    opts.auto_select_ipus = num_ipus
    return opts


def select_ipus(opts, indices, sharded=None, number_of_replicas=None):
    """Sets `select_ipus`: a list with the id of each device's IPU or group of IPUs.

    `sharded` and `number_of_replicas` are as in auto_select_ipus().

    Raises Exception if the IPUs are selected already.
    """
    del sharded, number_of_replicas
    _refuse_second_selection(opts)
    if isinstance(indices, (list, tuple)) and len(set(indices)) != len(indices):
        raise ValueError("All device indices in `indices` must be unique.")
    opts.select_ipus = indices
    return opts


def _refuse_second_selection(opts):
    if opts.auto_select_ipus != [] or opts.select_ipus != []:
        raise Exception("IPU devices have already been configured.")


def _add(opts, kept, added, name):
    if added is not None and not isinstance(added, dict):
        raise TypeError(f"`{name}` must be a dictionary of text to text, but it is {added!r}.")
    kept.update(added or {})
    return opts


def _profile(value):
    if value is None or value is False:
        return ExecutionProfileType.NO_PROFILE
    return ExecutionProfileType.DEVICE_PROFILE if value is True else value


def _algorithm(value):
    if isinstance(value, SchedulingAlgorithm):
        return value
    names = {name.replace("_", ""): member for name, member
             in SchedulingAlgorithm.__members__.items()}
    if not isinstance(value, str):
        raise TypeError("A scheduler must be a SchedulingAlgorithm or its name, but it is "
                        f"{value!r}.")
    key = value.upper().replace("_", "").replace("-", "").replace(" ", "")
    if not key:
        return SchedulingAlgorithm.CHOOSE_BEST
    if key not in names:
        raise ValueError(f"{value!r} is not a scheduler: it must be one of "
                         + ", ".join(SchedulingAlgorithm.__members__) + ".")
    return names[key]


def _key(key_id):
    return key_id.key, key_id.start_id
