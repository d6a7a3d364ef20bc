"""The options of IPUConfig: one table, from which the class, its checks and its docs are made.

Needs no TensorFlow.
"""

import dataclasses
from enum import Enum
from typing import Any, List, Tuple, Union


class SelectionOrder(Enum):
    """In which order the IPUs of a device are numbered for sharding and pipelining.

    AUTO: Tremula chooses. ZIGZAG: as they are counted. SNAKE: as they are counted, every second
    row reversed, so that neighbours are linked. HOOF: down one column, back up the other, so
    that the last is linked with the first.
    """
    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class ExecutionProfileType(Enum):
    """How fine the cycles of a run are recorded: not at all, for a device, an IPU or a tile."""
    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class DeviceConnectionType(Enum):
    """When to attach to a device.

    ALWAYS: when the system is configured. ON_DEMAND: when a program first runs. PRE_COMPILE:
    never, compile programs into the executable cache; results are zeros. NEVER: never, compile
    programs; running one is an error.
    """
    ALWAYS = 0
    ON_DEMAND = 1
    PRE_COMPILE = 2
    NEVER = 3


class MergeRemoteBuffersBehaviour(Enum):
    """Whether remote buffers of one shape become one: never, always, or where code gets
    smaller."""
    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(Enum):
    """How the order of the instructions is found. CHOOSE_BEST tries all and keeps the order that
    needs the least memory."""
    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class StochasticRoundingBehaviour(Enum):
    """Whether float16 results are rounded at random: never, always, or only where that keeps
    replicas identical."""
    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @staticmethod
    def from_bool(value):
        """ON for True, OFF for False."""
        return StochasticRoundingBehaviour.ON if value else StochasticRoundingBehaviour.OFF


# The type of auto_select_ipus and select_ipus: one number, or one for each TensorFlow device.
IPU_SELECTION = Union[int, List[int], Tuple[int, ...]]

MOST = 2 ** 63 - 1  # of a number
_MOST_TILES = 65536
_MOST_IPUS = 2 ** 32 - 1
_VERSIONS = ("", "ipu1", "ipu2", "ipu21")
NOTHING_YET = "Accepted and kept; the option has no effect yet."


@dataclasses.dataclass(frozen=True)
class Option:
    """An option (or, where `type` is None, a category).

    `effect` says what Tremula does with the option; empty where it only keeps it. A number, or
    each of several, is from `least` to `most`; a text is one of `choices`, where there are any.
    Private ones are left out of the docs.
    """
    path: str
    type: Any
    default: Any
    doc: str
    effect: str = ""
    deprecated: str = ""
    least: float = -MOST
    most: float = MOST
    choices: Tuple[str, ...] = ()

    def check_value(self, value):
        """Raises ValueError for a value of the right type that cannot be meant."""
        if self.choices and value not in self.choices:
            words = [repr(one) for one in self.choices]
            raise ValueError(f"{self.path} must be {', '.join(words[:-1])} or {words[-1]}, not "
                             f"{value!r}.")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if type(one) not in (int, float) or self.least <= one <= self.most:
                continue
            raise ValueError(f"`{self.path}` must be " + (
                f"{self.least} or more" if one < self.least else f"{self.most} or less")
                + (" for every device" if self.type is IPU_SELECTION else "") + f", not {one}.")

    @property
    def private(self):
        return self.path.startswith("_")


def _category(path, doc):
    return Option(path, None, None, doc)


_ENGINE_OPTIONS = " A dict of text to text, in the words of Poplar's options."

_EVENTS = (" With the option every operation is computed by itself and its results are checked, "
           "which costs time. A NaN or infinity among the operands is no event.")

OPTIONS = (
    Option("allow_recompute", bool, False,
           "Compute values again in the backward pass instead of keeping them from the forward "
           "pass, where that saves memory. In a pipeline: see its `recomputation_mode`.",
           effect="In the plan for an IPU, cheap results (activation functions, scalings of norms) "
                  "are computed again, in a pipeline all results of a stage. The program's results "
                  "do not change."),
    Option("selection_order", SelectionOrder, SelectionOrder.AUTO,
           "The order in which the IPUs of a replica take the shards of a program.",
           effect="Used by the plan for an IPU. ZIGZAG: 0, 1, 2, 3, ...; SNAKE: 0, 1, 3, 2, and so "
           "on by fours; HOOF: the even numbers up, then the odd numbers down. AUTO is SNAKE where "
           "stage i of every pipeline is on shard i, ZIGZAG otherwise."),
    Option("serialization_output_folder", str, "",
           "Folder for compiled programs as files that run without TensorFlow. Empty: none are "
           "written."),
    Option("compilation_poplar_options", dict, {},
           "Options for compiling and for the engine." + _ENGINE_OPTIONS,
           effect="See [profile_format.md](profile_format.md); POPLAR_ENGINE_OPTIONS wins."),
    Option("gcl_poplar_options", dict, {},
           "Options for collectives between replicas." + _ENGINE_OPTIONS),
    Option("auto_select_ipus", IPU_SELECTION, [],
           "How many IPUs each TensorFlow device has: a number for /device:IPU:0, or a list with "
           "one number for each device. Any free IPUs will do.",
           effect="Sets the devices of the system; excludes `select_ipus`.",
           least=1, most=_MOST_IPUS),
    Option("select_ipus", IPU_SELECTION, [],
           "Which IPUs each TensorFlow device has: the id of an IPU or of a group of IPUs, as "
           "gc-info lists them, for /device:IPU:0, or a list with one id for each device.",
           effect="Sets the devices of the system; excludes `auto_select_ipus`.",
           least=0, most=_MOST_IPUS),

    _category("convolutions", "Options for convolutions."),
    Option("convolutions.poplar_options", dict, {},
           "Planning options of every convolution, such as availableMemoryProportion and "
           "partialsType." + _ENGINE_OPTIONS,
           effect="Used by the plan for an IPU."),

    _category("device_connection", "When and how to attach to a device."),
    Option("device_connection.type", DeviceConnectionType, DeviceConnectionType.ALWAYS,
           "When to attach to a device.",
           effect="ALWAYS attaches when the system is configured. ON_DEMAND attaches before the "
           "first run and waits as the flags `on_demand_device_...` say. PRE_COMPILE fills the "
           "executable cache; runs give zeros. NEVER refuses runs."),
    Option("device_connection.version", str, "",
           "The IPU to compile for when none is attached: ipu1, ipu2 or ipu21. Needed for the "
           "types NEVER and PRE_COMPILE.",
           effect="With NEVER and PRE_COMPILE, programs are compiled for this machine; otherwise "
           "for the inventory's.", choices=_VERSIONS),
    Option("device_connection.enable_remote_buffers", bool, False,
           "Allow remote buffers when compiling for a device that is not attached."),

    _category("slices", "Options for slices of tensors."),
    Option("slices.poplar_options", dict, {},
           "Planning options of slicing and updating slices." + _ENGINE_OPTIONS,
           effect="The plan for an IPU uses availableMemoryProportion."),

    _category("experimental", "Options that may change."),
    Option("experimental.always_rearrange_copies_on_the_host", bool, False,
           "Rearrange data on the host, not on the IPU, when it is copied between them."),
    Option("experimental.enable_remote_buffer_embedding", bool, False,
           "Keep host embeddings in remote buffers."),
    Option("experimental.enable_prng_stability", bool, False,
           "Keep the random numbers of the replicas apart or equal as the program says, at some "
           "cost.",
           effect="With stochastic rounding: all replicas round a value that is the same on all of "
           "them alike. Without this option each replica draws its own random numbers. See "
           "floating_point_behaviour.esr."),
    _category("experimental.multi_replica_distribution",
              "Replicas of one program in several processes."),
    Option("experimental.multi_replica_distribution.process_index", int, 0,
           "The number of this process, from 0.",
           effect="The process has the replicas from process_index x local replicas on."),
    Option("experimental.multi_replica_distribution.process_count", int, 0,
           "How many processes there are. 0: one, without distribution.", least=0,
           effect="Programs have as many replicas as the devices of all processes have IPUs for. "
           "mpirun, poprun or Slurm has started the processes."),

    _category("floating_point_behaviour",
              "Which floating point events stop a program, and how float16 is rounded."),
    Option("floating_point_behaviour.inv", bool, False,
           "Stop at an invalid operation, such as infinity minus infinity.",
           effect="An operation that makes a NaN from operands without NaN raises an InternalError "
           "that names the operation. So does the cast to an integer of a NaN or of a number that "
           "does not fit; without inv such a cast gives the smallest integer." + _EVENTS),
    Option("floating_point_behaviour.div0", bool, False, "Stop at a division by zero.",
           effect="An exact infinity (a finite number divided by zero, log(0)) raises an "
           "InternalError that names the operation." + _EVENTS),
    Option("floating_point_behaviour.oflo", bool, False, "Stop at an overflow.",
           effect="A result of finite operands that is too large for its type (float16 or float32) "
           "raises an InternalError that names the operation." + _EVENTS),
    Option("floating_point_behaviour.esr", StochasticRoundingBehaviour,
           StochasticRoundingBehaviour.OFF,
           "Round float16 results at random instead of to the nearest. A bool is accepted too, "
           "but deprecated.",
           effect="ON: float16 results of elementwise operations, casts, matmuls, convolutions, "
           "sums and products are rounded up or down at random. reset_ipu_seed() seeds the "
           "generator. Gradients of pooling, scatters and gradients of batch norms are rounded to "
           "nearest. REPLICA_IDENTICAL_ONLY: only values that are the same on all replicas are "
           "rounded at random, alike on all. These are values that follow from a program's inputs "
           "and variables and from reductions over all replicas, and values of "
           "assume_equal_across_replicas(); values from feeds, random numbers and custom calls are "
           "not among them. As in the original this needs experimental.enable_prng_stability; "
           "otherwise all values are rounded to nearest. scopes.stochastic_rounding() overrides "
           "the option for operations. On the IPU Model, which stores float16 as float32, nothing "
           "is rounded at random ([numbers.md](numbers.md))."),
    Option("floating_point_behaviour.nanoo", bool, False,
           "An overflow in float16 gives NaN, instead of the largest float16.",
           effect="An overflow is a finite result that rounds to more than 65504. True: an "
           "overflow gives NaN. False: it gives 65504 with the result's sign. In both cases "
           "float16 has NaN at a pole, such as 1 / 0 or log(0), and results of infinite operands "
           "are as in IEEE 754. On the IPU Model, which stores float16 as float32, the option has "
           "no effect ([numbers.md](numbers.md)). Float32 always follows IEEE 754."),
    Option("floating_point_behaviour.set_all", bool, False,
           "Turn inv, div0, oflo, esr and nanoo on, whatever they are set to.",
           effect="Turns on the five options, with the effects above."),

    _category("io_tiles", "Tiles that are kept for data on its way in and out."),
    Option("io_tiles.num_io_tiles", int, 0, "How many tiles of each IPU are I/O tiles.",
           effect="The plan for an IPU leaves them out.", least=0, most=_MOST_TILES),
    Option("io_tiles.place_ops_on_io_tiles", bool, False,
           "Put operations on the I/O tiles as well. Needs `num_io_tiles`.",
           effect="In the plan, feeds of loops on one IPU and of grouped pipelines go through the "
           "I/O tiles while the other tiles compute."),
    Option("io_tiles.available_memory_proportion", float, 0.9,
           "The fraction of the memory of the I/O tiles that operations may use. Above 1 it limits "
           "nothing.",
           effect="Feeds that need more memory are not placed on I/O tiles.", least=0),

    _category("ipu_model", "The IPU Model, used with --use_ipu_model in TF_POPLAR_FLAGS."),
    Option("ipu_model.compile_ipu_code", bool, True,
           "Count the bytes of code in memory reports.",
           effect="Counts code with --use_ipu_model only. Virtual IPUs never count code, because "
           "its estimate is rough and would refuse programs that fit."),
    Option("ipu_model.tiles_per_ipu", int, 0, "Tiles of one IPU. 0: all of them.",
           effect="Describes the machine that the estimate is for.", least=0, most=_MOST_TILES),
    Option("ipu_model.version", str, "ipu2", "The IPU that is modelled: ipu1, ipu2 or ipu21.",
           effect="Describes the machine that the estimate is for.", choices=_VERSIONS),

    _category("matmuls", "Options for matrix multiplications."),
    Option("matmuls.clear_pass_type", bool, False,
           "Plan multiplications alike in the forward and the backward pass."),
    Option("matmuls.poplar_options", dict, {},
           "Planning options of every matrix multiplication, such as availableMemoryProportion "
           "and partialsType." + _ENGINE_OPTIONS,
           effect="Used by the plan for an IPU."),

    _category("norms", "Options for normalisations."),
    Option("norms.use_stable_statistics", bool, False,
           "Subtract the mean before computing the variance: slower, exact for data far from "
           "zero."),
    _category("norms.experimental", "Options that may change."),
    Option("norms.experimental.distributed_batch_norm_replica_group_size", int, 1,
           "How many replicas share the statistics of a batch normalisation.",
           effect="On several replicas, fused batch norms in training and their gradients share "
           "statistics among this many consecutive replicas; the number of replicas must be a "
           "multiple of it. The gradients of scale and offset are those of each replica. So is the "
           "batch size with which TensorFlow unbiases the variance.", least=1),

    _category("optimizations", "What the compiler does to make a program smaller or faster."),
    _category("optimizations.math", "Changes to arithmetic."),
    Option("optimizations.math.fast", bool, False,
           "Allow changes that may alter results: other orders of additions, no care for NaN "
           "and infinity."),
    Option("optimizations.math.dot_strength", bool, True,
           "Replace small matrix multiplications by multiplications and sums."),
    Option("optimizations.prefetch_data_streams", bool, True,
           "Fetch data from the host before it is needed."),
    Option("optimizations.combine_embedding_lookups", bool, False,
           "Combine several lookups into one table into one lookup."),
    Option("optimizations.combine_matmuls", bool, False,
           "Combine several matrix multiplications with a common operand into one."),
    Option("optimizations.enable_graph_outlining", bool, True,
           "Use one piece of code for equal parts of a program."),
    Option("optimizations.merge_infeed_io_copies", bool, True,
           "Copy all tensors of an infeed element in one go."),
    Option("optimizations.maximum_cross_replica_sum_buffer_size", int, 0,
           "Bytes up to which sums over replicas are combined.",
           effect="On the host: sums that do not need each other become one, which instances send "
           "as one message ([distributed.md](distributed.md#fewer-messages)). The estimate counts "
           "each.", least=0),
    Option("optimizations.maximum_reduce_scatter_buffer_size", int, 0,
           "Bytes up to which reduce-scatters are combined.",
           effect="As the one of sums, on the host.", least=0),
    Option("optimizations.maximum_inter_ipu_copies_buffer_size", int, 0,
           "Bytes up to which copies between IPUs are combined.", least=0),
    Option("optimizations.maximum_send_recv_cluster_size", int, 0,
           "Bytes up to which transfers with the host are combined.", least=0),
    Option("optimizations.maximum_reduce_many_buffer_size", int, 0,
           "Bytes up to which reductions are combined.", least=0),
    Option("optimizations.maximum_all_gather_buffer_size", int, 0,
           "Bytes up to which all-gathers are combined.",
           effect="As the one of sums, on the host.", least=0),
    Option("optimizations.minimum_remote_tensor_size", int, 128,
           "Bytes that a tensor must have to be kept in a remote buffer.",
           effect="Used by the plan of memory ([cost_model.md](cost_model.md#remote-memory)).",
           least=0),
    Option("optimizations.merge_remote_buffers", MergeRemoteBuffersBehaviour,
           MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
           "Whether remote buffers of one shape become one buffer."),
    Option("optimizations.enable_gather_simplifier", bool, True,
           "Replace gathers by slices where that is cheaper."),
    Option("optimizations.triangular_solve_expander_block_size", int, 0,
           "Block size of triangular solves. 0: chosen by the compiler.", least=0),
    Option("optimizations.cholesky_block_size", int, 0,
           "Block size of Cholesky decompositions. 0: chosen by the compiler.", least=0),
    Option("optimizations.enable_fast_math", bool, False,
           "Older name of `optimizations.math.fast`.",
           deprecated="use `optimizations.math.fast` instead."),
    Option("optimizations.enable_dynamic_slice_replacement", bool, True,
           "Replace dynamic slices by matrix multiplications where that is cheaper."),

    _category("pooling", "Options for pooling."),
    Option("pooling.poplar_options", dict, {},
           "Planning options of every pooling." + _ENGINE_OPTIONS),

    _category("scheduling", "In which order a program is run."),
    Option("scheduling.algorithm", SchedulingAlgorithm, SchedulingAlgorithm.CHOOSE_BEST,
           "How the order is found.",
           effect="In the plan, POST_ORDER is depth first from the results. All other values take "
                  "the order of several that needs the least memory."),
    Option("scheduling.maximum_scheduler_lookahead_depth", int, 5,
           "How many steps LOOK_AHEAD looks ahead.", least=0),
    Option("scheduling.maximum_scheduler_search_space_size", int, 64,
           "How many orders LOOK_AHEAD compares at a step.", least=0),

    _category("_profiling", "Reports, as the functions of `ipu.utils` set them."),
    Option("_profiling.profiling", bool, False, "Record how programs are compiled."),
    Option("_profiling.enable_ipu_events", bool, False, "Record events."),
    Option("_profiling.enable_io_trace", bool, True,
           "Of events, record those of loading programs and of transfers too."),
    Option("_profiling.enable_compilation_trace", bool, True,
           "Put tensor maps into the events of compilations."),
    Option("_profiling.use_poplar_text_report", bool, False, "Write reports as text."),
    Option("_profiling.use_poplar_cbor_report", bool, False, "Write reports as CBOR."),
    Option("_profiling.profile_execution", ExecutionProfileType, ExecutionProfileType.NO_PROFILE,
           "How fine the cycles of a run are recorded."),
    Option("_profiling.enable_poplar_serialized_graph", bool, False, "Write the graph too."),
    Option("_profiling.report_every_nth_execution", int, 0, "Report every so many runs. 0: one."),
    Option("_profiling.max_report_size", int, 0x10000000, "Bytes that a report may have."),
    Option("_profiling.report_directory", str, "", "Folder for the reports."),
    Option("_profiling.graph_poplar_options", dict, {}, "Options of compilation reports."),
    Option("_profiling.execution_poplar_options", dict, {}, "Options of execution reports."),

    _category("_verified_transfers", "Transfers with the host that are checked."),
    Option("_verified_transfers.enabled", bool, False, "Check transfers."),
    Option("_verified_transfers.inputs", Tuple[int, int], (0, -1), "Key and first id of inputs."),
    Option("_verified_transfers.input_parameters", Tuple[int, int], (0, -1),
           "Key and first id of parameters that come in."),
    Option("_verified_transfers.outputs", Tuple[int, int], (0, -1), "Key and first id of results."),
    Option("_verified_transfers.output_parameters", Tuple[int, int], (0, -1),
           "Key and first id of parameters that go out."),
    Option("_verified_transfers.infeeds", dict, {}, "Key and first id of each infeed."),
    Option("_verified_transfers.outfeeds", dict, {}, "Key and first id of each outfeed."),
)
