"""ReportJSON reads events (docs/events.md) and asserts what they say (for test_utils)."""

import collections
import dataclasses
import fnmatch
import json

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import config, utils
from tremula.tf.ipu.config import IPUConfig
from tremula.tf.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tremula.tf.plugin.poplar.ops import gen_ipu_ops
from tremula.tf.testing import case_extensions, ipus


# ---- names ----

def items_matching_at_least_one_pattern(items, patterns):
    """Those of `items` that begin as one of the patterns."""
    return [one for one in items if any(fnmatch.fnmatch(one, p + "*") for p in patterns)]


def names_in_blacklist(names, blacklist):
    """Those of `names` that begin as one of the list."""
    return items_matching_at_least_one_pattern(names, blacklist)


def missing_names_in_whitelist_entries(names, whitelist):
    """Those of `names` that contain none of the list."""
    return [name for name in names
            if name and not any(fnmatch.fnmatch(name, f"*{p}*") for p in whitelist)]


def missing_whitelist_entries_in_names(names, whitelist):
    """Patterns of the list that are in none of the names."""
    return [f"*{p}*" for p in whitelist
            if not any(fnmatch.fnmatch(name, f"*{p}*") for name in names)]


def count_matches_in_list(input_list, to_match):
    """How many of the list the pattern fits."""
    return sum(fnmatch.fnmatch(one, to_match) for one in input_list)


class TensorMap:
    """The tensor map of a compilation: `mappings`, the tensors of each computation by its name."""

    Tile = collections.namedtuple("Tile", "tile num_elements")

    @dataclasses.dataclass
    class Tensor:
        """A value and the tiles that it is on."""
        inst: str
        index: int
        shape: list
        dtype: str
        has_constant: bool
        has_aliases: bool
        num_elements: int
        tiles: list
        name: str = ""

        def tile_ids(self):
            """The numbers of its tiles."""
            return [one.tile for one in self.tiles]

        @property
        def id(self):
            """Text that is no other value's."""
            return f"{self.inst},{self.index}"

    def __init__(self, tensor_map, num_tiles_per_ipu=None):
        self.num_tiles_per_ipu = num_tiles_per_ipu
        self.mappings = {
            computation: [TensorMap.Tensor(*one[:4], bool(one[4]), bool(one[5]), one[6],
                                           [TensorMap.Tile(*tile) for tile in one[7]], *one[8:])
                          for one in tensors]
            for computation, tensors in tensor_map["mappings"].items()}

    def all_tensors(self):
        """The tensors of all computations."""
        return (tensor for tensors in self.mappings.values() for tensor in tensors)

    def tile_ids(self, computation=None):
        """The tiles of the tensors of a computation, of a list of them, or of all: a set."""
        names = ([computation] if isinstance(computation, str)
                 else computation or self.computation_names())
        return {tile for name in names for tensor in self.mappings[name]
                for tile in tensor.tile_ids()}

    def ipu_ids(self, computation=None):
        """The IPUs of tile_ids(): a set."""
        return {tile // self.num_tiles_per_ipu for tile in self.tile_ids(computation)}

    def computation_names(self):
        """The names of the computations."""
        return list(self.mappings)

    def tensor_inst_name_mappings(self):
        """Tensor.id -> name."""
        return {tensor.id: tensor.name for tensor in self.all_tensors()}


class ReportJSON:
    """Reads the events of a session, or of eager mode.

    What was compiled between two calls is one report: the original made one program of all that a
    graph places on a device without `compile`, Tremula may make several. Compute sets, codelets and
    steps are those of all of them, the rest is the largest program's.

    Before SDK 2.2 it configured the system too, with options that were its arguments (`_configure`
    says which; another one raises TypeError). So it does where there are such arguments, and where
    nobody but another ReportJSON has configured the system in this test, unless `configure_device`
    is False. What a program configured before its first test stays if it records events.
    """

    def __init__(self, test, sess=None, eager_mode=False, estimator_hook=False, **options):
        if eager_mode and sess:
            raise ValueError("Sessions can't be used in eager mode")
        self.test = test
        self.sess = sess
        self.eager_mode = eager_mode
        self.report = None
        self.events = {}
        self.num_events = 0
        self.tensor_map = None
        self.instruction_info = {}
        if sess:
            self.create_ipu_event_trace()
        is_wanted = options.pop("configure_device", True)
        if is_wanted and (sess or eager_mode or estimator_hook) and (
                options or config._current is None or config._current == _configured
                or case_extensions.is_of_earlier_test(test)):
            self.ipu_config = _configure(estimator_hook, **options)

    def create_ipu_event_trace(self):
        """Adds the operation that reads the events."""
        with tf.device("cpu"):
            self.report = gen_ipu_ops.ipu_event_trace()

    def reset(self):
        """Forgets the events so far."""
        self.get_event_trace()

    def get_event_trace(self, session=None):
        """The serialised events since the last call."""
        if self.eager_mode:
            self.create_ipu_event_trace()
            return self.report
        if self.report is None:
            raise RuntimeError("There is no ipu_event_trace(): hand a session to ReportJSON.")
        return (session or self.sess).run(self.report)

    def get_events_from_log(self, log):
        """(how many there are of each type, the IpuTraceEvents)."""
        events = utils.extract_all_events(log)
        return collections.Counter(event.type for event in events), events

    def get_ipu_events(self, session=None):
        """The same of the events since the last call."""
        return self.get_events_from_log(self.get_event_trace(session))

    def parse_log(self, assert_len=None, assert_msg="", session=None):
        """parse_events() of the events since the last call."""
        return self.parse_events(self.get_event_trace(session), assert_len, assert_msg)

    def parse_events(self, events, assert_len=None, assert_msg=""):
        """Takes serialised events in; returns how many there are of each type."""
        self.num_events = len(events)
        if assert_len:
            self.assert_num_events(assert_len, assert_msg)
        types, self._all = self.get_events_from_log(events)
        self.events, self.tensor_map, self.instruction_info = {}, None, {}
        for event in self._all:
            self._take(event)
        return types

    def _take(self, event):
        end, run = event.compile_end, event.execute
        if event.data_transfer.data_transfer:
            self.events.setdefault(event.type, []).append(
                json.loads(event.data_transfer.data_transfer))
        is_largest = True
        if end.compilation_report:
            report, other = json.loads(end.compilation_report), self.events.get(event.type)
            if other is not None:
                is_largest = _size(report) >= _size(other)
                report = _merged(*((report, other) if is_largest else (other, report)))
            self.events[event.type] = report
        if end.tensor_map and is_largest:
            report = self.events.get(event.type)
            tensor_map = TensorMap(json.loads(end.tensor_map),
                                   report and report["target"]["tilesPerIPU"])
            if report or self.tensor_map is None or len(list(tensor_map.all_tensors())) \
                    >= len(list(self.tensor_map.all_tensors())):
                self.tensor_map = tensor_map
        if end.instruction_info:
            self.instruction_info.setdefault("ml_types", {}).update(
                json.loads(end.instruction_info).get("ml_types", {}))
        if event.type == IpuTraceEvent.EXECUTE:
            self.events.setdefault(event.type, [])
        if run.execution_report:
            self.events[event.type].append(json.loads(run.execution_report))

    # -- what there is --

    def assert_no_event(self, msg=""):
        """Fails the test if there are events since the last call."""
        types, _ = self.get_ipu_events()
        self.test.assertFalse(types, msg)

    def assert_num_events(self, num_expected, assert_msg=""):
        """Fails the test unless so many events were parsed."""
        self.test.assertEqual(num_expected, self.num_events, assert_msg)

    def assert_compiled_for_ipu(self, msg=""):
        """Fails the test unless something was compiled since the last call."""
        types, _ = self.get_ipu_events()
        self.test.assertIn(IpuTraceEvent.COMPILE_END, types, msg)

    def assert_contains_one_compile_event(self):
        """Fails the test unless a compilation with a report was parsed."""
        self.test.assertIn(IpuTraceEvent.COMPILE_END, self.events)

    def assert_contains_no_compile_event(self):
        """Fails the test if a compilation with a report was parsed."""
        self.test.assertNotIn(IpuTraceEvent.COMPILE_END, self.events)

    # -- transfers --

    def get_host_to_device_event_names(self, event_idx=0):
        """The tensors that went to the device with the transfer of this number."""
        return self._transferred(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, event_idx)

    def get_device_to_host_event_names(self, event_idx=0):
        """The tensors that came from the device with the transfer of this number."""
        return self._transferred(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, event_idx)

    def _transferred(self, kind, index):
        return [tensor["name"] for tensor in self.events[kind][index]["tensors"]]

    def assert_host_to_device_event_names(self, names, msg=None, event_idx=0):
        """Fails the test unless these tensors (patterns) went, and no others."""
        self._assert_transferred(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, names, msg, event_idx)

    def assert_device_to_host_event_names(self, names, msg=None, event_idx=0):
        """Fails the test unless these tensors (patterns) came, and no others."""
        self._assert_transferred(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, names, msg, event_idx)

    def _assert_transferred(self, kind, names, msg, index):
        there = self._transferred(kind, index) if len(self.events.get(kind, [])) > index else []
        self.test.assertEqual(len(names), len(there), msg)
        for name in names:
            self.test.assertEqual(count_matches_in_list(there, name), 1, msg)

    def assert_contains_host_to_device_transfer_event(self):
        """Fails the test unless something went to a device."""
        self.test.assertIn(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, self.events)

    def assert_contains_device_to_host_transfer_event(self):
        """Fails the test unless something came from a device."""
        self.test.assertIn(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, self.events)

    def assert_num_host_to_device_transfer_events(self, num):
        """Fails the test unless there were so many transfers to a device."""
        self.test.assertEqual(len(self.events[IpuTraceEvent.HOST_TO_DEVICE_TRANSFER]), num)

    def assert_num_device_to_host_transfer_events(self, num):
        """Fails the test unless there were so many transfers from a device."""
        self.test.assertEqual(len(self.events[IpuTraceEvent.DEVICE_TO_HOST_TRANSFER]), num)

    # -- reports --

    def _graph(self):
        return self.events[IpuTraceEvent.COMPILE_END]

    def get_num_ipus(self):
        """The IPUs of the device."""
        return self._graph()["target"]["numIPUs"]

    def get_num_tiles(self):
        """The tiles of all IPUs of the device."""
        return self._graph()["target"]["numTiles"]

    def get_num_tiles_per_ipu(self):
        """The tiles of an IPU."""
        return self._graph()["target"]["tilesPerIPU"]

    def get_each_tile_memory(self):
        """Bytes of each tile, without gaps."""
        return self._graph()["memory"]["byTile"]["total"]

    def get_max_tile_memory(self):
        """Bytes of the fullest tile, without gaps."""
        return max(self.get_each_tile_memory())

    def get_total_tile_memory(self):
        """Bytes of all tiles, without gaps."""
        return sum(self.get_each_tile_memory())

    def get_always_live_memory(self):
        """Bytes of all tiles that are always live."""
        return sum(self._graph()["memory"]["liveness"]["alwaysLive"]["bytesByTile"])

    def get_peak_liveness(self):
        """Bytes of all tiles at the fullest step, without what is always live."""
        steps = list(self._graph()["memory"]["liveness"]["notAlwaysLive"]["byProgram"])
        peak = 0
        while steps:
            step = steps.pop()
            peak = max(peak, step["bytes"])
            steps += step["children"]
        return peak

    def get_vertices(self):
        """The names of the codelets."""
        return self._graph()["vertexTypes"]["names"]

    def get_compute_sets(self):
        """The names of the compute sets."""
        return self._graph()["computeSets"]["names"]

    def get_program(self, index=0):
        """The step of this number: a dict with `type`, `name` and `children`, their numbers."""
        return self._programs()[index]

    def get_first_program_of_type(self, program_type):
        """The first step of a type, as get_program() gives it, or None."""
        return next((one for one in self._programs() if one["type"] == program_type), None)

    def get_program_names_of_type(self, program_type):
        """The names of the steps of a type."""
        return [one["name"] for one in self._programs() if one["type"] == program_type]

    def _programs(self):
        """The steps of the report's trees, each before its children."""
        flat = []
        waiting = [(one, None) for one in
                   reversed(self._graph()["memory"]["liveness"]["notAlwaysLive"]["byProgram"])]
        while waiting:
            tree, parent = waiting.pop()
            if parent is not None:
                parent["children"].append(len(flat))
            flat.append({"type": tree["type"], "name": tree["name"], "children": []})
            waiting += [(one, flat[-1]) for one in reversed(tree["children"])]
        return flat

    def get_execution_reports(self):
        """The execution reports, a list."""
        return self.events[IpuTraceEvent.EXECUTE]

    def get_execution_report_cycles(self, idx):
        """The cycles of a run in the execution report of this number."""
        return self.get_execution_reports()[idx]["simulation"]["cycles"]

    def get_instruction_info(self):
        """What compilations tell of instructions: {"ml_types": {name: number of an MLType}}."""
        return self.instruction_info

    def get_ml_type_counts(self):
        """How many instructions are of inference, of the forward pass of training, of the backward
        pass and of the weight update: a list of four numbers."""
        counts = collections.Counter(self.instruction_info.get("ml_types", {}).values())
        return [counts[number] for number in range(1, 5)]

    def get_tensor_map(self):
        """The TensorMap of the compilation, or None."""
        return self.tensor_map

    def assert_num_execution_reports_equal(self, num):
        """Fails the test unless there are so many execution reports."""
        self.test.assertEqual(len(self.get_execution_reports()), num)

    def assert_no_compute_set(self):
        """Fails the test if there are compute sets."""
        report = self.events.get(IpuTraceEvent.COMPILE_END, {})
        self.test.assertFalse(report.get("computeSets", {}).get("names", []))

    def assert_all_compute_sets_and_list(self, ok):
        """Fails the test unless each compute set fits one of the patterns, and each pattern one."""
        self._assert_all_and_list(self.get_compute_sets(), ok)

    def assert_compute_sets_contain_list(self, ok):
        """Fails the test unless each pattern fits a compute set."""
        self.test.assertFalse(missing_whitelist_entries_in_names(self.get_compute_sets(), ok))

    def assert_compute_sets_not_in_blacklist(self, not_ok):
        """Fails the test if one of the patterns fits a compute set."""
        self.test.assertFalse(names_in_blacklist(self.get_compute_sets(), not_ok))

    def assert_compute_sets_matches(self, expr, num_matches, msg=None):
        """Fails the test unless the pattern fits so many compute sets."""
        self.test.assertEqual(count_matches_in_list(self.get_compute_sets(), expr), num_matches,
                              msg)

    def assert_all_global_exchanges_and_list(self, ok):
        """Fails the test unless each exchange between IPUs fits one of the patterns, and each
        pattern one."""
        self._assert_all_and_list(self.get_program_names_of_type("GlobalExchange"), ok)

    def _assert_all_and_list(self, names, ok):
        self.test.assertFalse(missing_names_in_whitelist_entries(names, ok))
        self.test.assertFalse(missing_whitelist_entries_in_names(names, ok))

    def assert_pipeline_stages_on_expected_ipu(self, expected_ipus, tiles_per_ipu=None):
        """Fails the test unless the computations of stage i are on the IPU expected_ipus[i] (a
        list of numbers: on some of these; -1: anywhere), and there are no more stages.

        `tiles_per_ipu`: how many tiles an IPU has, if events do not say it."""
        if tiles_per_ipu is not None and self.tensor_map.num_tiles_per_ipu is None:
            self.tensor_map.num_tiles_per_ipu = tiles_per_ipu
        names = self.tensor_map.computation_names()
        self.test.assertFalse(items_matching_at_least_one_pattern(
            names, [f"*_stage_{len(expected_ipus) + 1}_"]), "There are more stages.")
        for stage, expected in enumerate(expected_ipus):
            of_stage = items_matching_at_least_one_pattern(names, [f"*_stage_{stage}_"])
            self.test.assertTrue(of_stage, f"There is no stage {stage}.")
            allowed = set(expected) if isinstance(expected, (list, tuple)) else {expected}
            if -1 not in allowed:
                self.test.assertLessEqual(self.tensor_map.ipu_ids(of_stage), allowed,
                                          f"Stage {stage} is on other IPUs.")

    def assert_tensor_inst_name_mappings(self, expected_mappings):
        """Fails the test unless of each pattern of an instruction there is one tensor, and its
        name fits the pattern that belongs to it."""
        mappings = self.tensor_map.tensor_inst_name_mappings()
        for instruction, name in expected_mappings.items():
            found = items_matching_at_least_one_pattern(mappings, [instruction])
            self.test.assertEqual(len(found), 1, f"{instruction}: {found}")
            self.test.assertTrue(fnmatch.fnmatch(mappings[found[0]], name),
                                 f"{instruction} is called {mappings[found[0]]}, not {name}.")

    def assert_tensor_input_names(self, *expected_inputs):
        """Fails the test unless the program's arguments and variables have these names
        (patterns), in order."""
        mappings = self.tensor_map.tensor_inst_name_mappings()
        for number, expected in enumerate(expected_inputs):
            found = items_matching_at_least_one_pattern(mappings, [f"arg{number}."])
            self.test.assertEqual(len(found), 1, f"arg{number}: {found}")
            name = mappings[found[0]].removeprefix("XLA_Args/")
            self.test.assertTrue(fnmatch.fnmatch(name, expected),
                                 f"arg{number} is called {name}, not {expected}.")

    def assert_vertices_contain_list(self, ok):
        """Fails the test unless each pattern fits a codelet."""
        self.test.assertFalse(missing_whitelist_entries_in_names(self.get_vertices(), ok))

    # -- numbers, with a tolerance that is a part of what is expected --

    def assert_each_tile_memory_is_less_than(self, expected, tolerance=0.01):
        """Fails the test if a tile has more bytes."""
        self.test.assertLessEqual(self.get_max_tile_memory(), int(expected * (1 + tolerance)))

    def assert_total_tile_memory(self, expected, tolerance=0.01):
        """Fails the test unless there are so many bytes on all tiles."""
        self._assert_near(self.get_total_tile_memory(), expected, tolerance)

    def assert_max_tile_memory(self, expected, tolerance=0.01):
        """Fails the test unless there are so many bytes on the fullest tile."""
        self._assert_near(self.get_max_tile_memory(), expected, tolerance)

    def assert_always_live_memory(self, expected, tolerance=0.01):
        """Fails the test unless so many bytes are always live."""
        self._assert_near(self.get_always_live_memory(), expected, tolerance)

    def assert_execution_report_cycles(self, idx, expected, tolerance=0.01):
        """Fails the test unless the run of this number took so many cycles."""
        self._assert_near(self.get_execution_report_cycles(idx), expected, tolerance)

    def _assert_near(self, value, expected, tolerance):
        self.test.assertGreaterEqual(value, int(expected * (1 - tolerance)))
        self.test.assertLessEqual(value, int(expected * (1 + tolerance)))


def _size(report):
    return report["graph"]["numComputeSets"]


def _merged(report, other):
    """The report of a compilation with the compute sets, codelets and steps of a smaller one."""
    for part in ("computeSets", "vertexTypes"):
        for name, values in other[part].items():
            report[part][name] += values
    steps = [one["memory"]["liveness"]["notAlwaysLive"] for one in (report, other)]
    steps[0]["byProgram"] += steps[1]["byProgram"]
    return report


# The configuration that a ReportJSON has made last, or None.
_configured = None


def _configure(estimator_hook, profiling=True, execution_trace=True, compile_ipu_code=False,
               tiles_per_ipu=0, device_count_override=None, sharded=False, pipelining=False,
               replicated=False, max_cross_replica_sum_buffer_size=0,
               max_inter_ipu_copies_buffer_size=0, merge_infeed_io_copies=False,
               always_rearrange_copies_on_the_host=False, serialization_folder="",
               allow_recompute=False, use_stable_norm_statistics=False, set_opts_fn=None,
               triangular_solve_expander_block_size=0, minimum_remote_tensor_size=128,
               use_hw=False, num_io_tiles=0):
    """Configures the system as the tests of SDK 2.0 want it; with `estimator_hook` only makes the
    IPUConfig, which it returns."""
    global _configured
    opts = IPUConfig()
    opts._profiling.profiling = profiling
    opts._profiling.profile_execution = execution_trace
    opts.experimental.always_rearrange_copies_on_the_host = always_rearrange_copies_on_the_host
    opts.optimizations.merge_infeed_io_copies = merge_infeed_io_copies
    opts.optimizations.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    opts.optimizations.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    opts.optimizations.triangular_solve_expander_block_size = triangular_solve_expander_block_size
    opts.optimizations.minimum_remote_tensor_size = minimum_remote_tensor_size
    count = device_count_override or ipus.compute_device_count(
        pipelining, sharded, replicated)
    if count:
        opts.auto_select_ipus = count
    opts.serialization_output_folder = serialization_folder
    opts.ipu_model.compile_ipu_code = compile_ipu_code
    opts.ipu_model.tiles_per_ipu = tiles_per_ipu
    opts.allow_recompute = allow_recompute
    opts.norms.use_stable_statistics = use_stable_norm_statistics
    if num_io_tiles > 0:
        opts.io_tiles.num_io_tiles = num_io_tiles
        opts.io_tiles.place_ops_on_io_tiles = True
    if use_hw:
        ipus.add_hw_ci_connection_options(opts)
    if set_opts_fn:
        set_opts_fn(opts)
    if not estimator_hook:
        opts.configure_ipu_system()
        _configured = config._current
    return opts


def configure_ipu_system(compilation_trace=True, io_trace=False, execution_trace=True,
                         report_every_nth_execution=0, text_report=True, cbor_report=False,
                         sharded=False, pipelining=False, replicated=False,
                         compile_ipu_code=False, enable_ipu_events=False, engine_opts=None,
                         device_count_override=None):
    """Configures the system as the tests of the first releases want it: by default everything is
    recorded, on one IPU, or as many as the kind of the test asks for.

    Reports are JSON, whatever `text_report` and `cbor_report` say; `engine_opts` are
    `compilation_poplar_options`.
    """
    del text_report, cbor_report

    def adjust(opts):
        reports = opts._profiling
        reports.enable_ipu_events = enable_ipu_events or io_trace or not reports.profiling
        reports.enable_io_trace = io_trace
        reports.report_every_nth_execution = report_every_nth_execution
        opts.compilation_poplar_options.update(engine_opts or {})

    _configure(False, profiling=compilation_trace, execution_trace=execution_trace,
               compile_ipu_code=compile_ipu_code, device_count_override=device_count_override,
               sharded=sharded, pipelining=pipelining, replicated=replicated, set_opts_fn=adjust)
