"""What an IPU would need for a compiled program: include/tremula/program.h from Python.

    plan = planning.plan(executable, target="mk2")     # a core.Executable
    plan.fits, plan.cycles, plan.memory_bytes          # trm_program_totals, by name
    print(plan)                                        # and plan.layers, plan.explain()
"""

import ctypes
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int64, c_size_t, c_uint32, c_void_p
from typing import NamedTuple

from tremula import core

_CYCLES = ("compute", "copy", "exchange", "global_exchange", "host", "collective", "sync",
           "control", "overlapped")
_TOTALS = [
    ("size", c_size_t), ("fits", c_bool), ("is_close", c_bool), ("num_ipus", c_uint32),
    ("tiles_per_ipu", c_uint32), ("replicas", c_uint32), ("bytes_per_tile", c_int64),
    ("cycles", c_int64), *((f"{kind}_cycles", c_int64) for kind in _CYCLES),
    ("seconds", c_double), ("tile_balance", c_double),
    *((name, c_int64) for name in (
        "flops", "memory_bytes", "memory_bytes_with_gaps", "always_live_bytes", "max_step_bytes",
        "worst_tile_bytes")),
    ("worst_tile", c_uint32), ("worst_step", c_uint32), ("bytes_over", c_int64),
    ("tiles_over", c_uint32), ("weights_bytes", c_int64), ("remote_bytes", c_int64),
    ("num_steps", c_uint32), ("num_compute_sets", c_uint32), ("num_variables", c_uint32),
    *((name, c_int64) for name in (
        "num_vertices", "num_edges", "host_bytes_in", "host_bytes_out", "code_bytes", "load_bytes",
        "load_cycles", "between_domains_cycles", "cycles_low", "cycles_high",
        "worst_tile_bytes_low", "worst_tile_bytes_high")),
    ("cycles_like", c_char_p), ("bytes_like", c_char_p),
]


class _Totals(ctypes.Structure):  # trm_program_totals
    _fields_ = _TOTALS


_LAYER = [("steps", c_uint32)] + [(name, c_int64) for name in (
    "cycles", "flops", "weights_bytes", "always_live_bytes", "live_bytes", "worst_tile_bytes",
    "cycles_low", "cycles_high")]


class _Layer(ctypes.Structure):  # trm_program_layer
    _fields_ = [("size", c_size_t), ("name", c_char_p), *_LAYER]


class Layer(NamedTuple):
    """A layer of a plan: a scope of names, or "" for instructions without one.

    steps of the program, cycles and floating-point operations of one run; bytes on all tiles, and
    worst_tile_bytes on the fullest tile; cycles_low to cycles_high is the error bar of cycles
    """
    name: str
    steps: int
    cycles: int
    flops: int
    weights_bytes: int
    always_live_bytes: int
    live_bytes: int
    worst_tile_bytes: int
    cycles_low: int
    cycles_high: int


class _Step(ctypes.Structure):  # the first members of trm_program_step_info
    _fields_ = [("size", c_size_t), ("type", ctypes.c_int),
                *((name, c_char_p) for name in ("name", "hlo_name", "op_name", "op_type", "layer",
                                                "file")),
                *((name, ctypes.c_int32) for name in ("line", "ipu", "stage")),
                ("parent", c_uint32), ("end", c_uint32), ("repeat_count", ctypes.c_uint64),
                ("executions", c_double)]


_out, _error = POINTER(c_void_p), c_void_p
_SIGNATURES = {
    "trm_target_load": (ctypes.c_int, [c_char_p, _out, _error]),
    "trm_target_string": (c_char_p, [c_void_p, c_char_p]),
    "trm_target_release": (None, [c_void_p]),
    "trm_executable_num_shards": (c_uint32, [c_void_p]),
    "trm_program_options_of": (None, [c_void_p, c_void_p]),
    "trm_program_create_for_executable": (ctypes.c_int, [c_void_p, c_void_p, c_void_p, _out,
                                                         _error]),
    "trm_program_create_split": (ctypes.c_int, [c_void_p, c_uint32, _out, _error]),
    "trm_program_free": (None, [c_void_p]),
    "trm_program_get_totals": (c_bool, [c_void_p, POINTER(_Totals)]),
    "trm_program_step_get": (c_bool, [c_void_p, c_size_t, POINTER(_Step)]),
    "trm_program_note": (c_char_p, [c_void_p, c_size_t]),
    "trm_program_explain": (ctypes.c_int, [c_void_p, c_bool, _out, _error]),
    "trm_program_list_layers": (ctypes.c_int, [c_void_p, c_size_t, POINTER(POINTER(_Layer)),
                                               POINTER(c_size_t), _error]),
}


def _library():
    loaded = core.library()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


class _Options(ctypes.Structure):  # trm_program_options
    _fields_ = [
        ("size", c_size_t), ("num_ipus", c_uint32), ("replicas", c_uint32),
        ("selection_order", ctypes.c_int), ("conv_memory_proportion", c_double),
        ("matmul_memory_proportion", c_double), ("slice_memory_proportion", c_double),
        ("convolution_options", c_char_p), ("matmul_options", c_char_p), ("half_partials", c_bool),
        ("compile_ipu_code", c_bool), ("instrument", c_bool), ("tiles_per_ipu", c_uint32),
        ("io_tiles", c_uint32), ("place_ops_on_io_tiles", c_bool),
        ("io_tile_memory_proportion", c_double), ("synthetic", c_uint32),
        ("assumed_trip_count", ctypes.c_uint64), ("recompute", c_bool), ("outlining", c_bool),
        ("schedule_as_written", c_bool), ("schedule_post_order", c_bool), ("ipu_model", c_bool),
        ("minimum_remote_bytes", c_int64), ("framework_steps", ctypes.c_int),
        ("model_error", c_double),
    ]


def _bytes(count):
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _bar(plan, name):
    """The error bar of a figure: "-4 to +15 %"."""
    figure = max(getattr(plan, name), 1)
    low, high = (100 * (getattr(plan, f"{name}_{end}") / figure - 1) for end in ("low", "high"))
    return f"{low:+.0f} to {high:+.0f} %"


class Plan:
    """What a program needs. Its attributes are the members of trm_program_totals
    (include/tremula/program.h): bytes, cycles of one run at a tile's clock, and `seconds`. Beside
    them are

    target   the machine's name; None: that for which the program was compiled
    notes    what a reader of the numbers should know
    layers   a Layer for each scope of names, in the order of their first steps
    """

    def __init__(self, handle, target):
        self._handle = handle
        self.target = target
        totals = _Totals(size=ctypes.sizeof(_Totals))
        core.library().trm_program_get_totals(handle, byref(totals))
        for name, kind in _TOTALS[1:]:
            value = getattr(totals, name)
            setattr(self, name, value.decode() if kind is c_char_p else value)
        self.notes = []
        while (note := core.library().trm_program_note(handle, len(self.notes))) is not None:
            self.notes.append(note.decode())

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            core.library().trm_program_free(handle)

    @property
    def layers(self):
        rows, count = POINTER(_Layer)(), c_size_t()
        core._call("trm_program_list_layers", self._handle, ctypes.sizeof(_Layer), byref(rows),
                   byref(count))
        try:
            return [Layer((rows[i].name or b"").decode("utf-8", "replace"),
                          *(getattr(rows[i], name) for name, _ in _LAYER))
                    for i in range(count.value)]
        finally:
            core.library().trm_free(ctypes.cast(rows, c_void_p))

    @property
    def enqueued(self):
        """How many elements a run puts into an outfeed: the one that gets most."""
        step = _Step(size=ctypes.sizeof(_Step))
        most = i = 0
        while core.library().trm_program_step_get(self._handle, i, byref(step)):
            if b"/outfeed." in step.name and b"DeviceToHost" in step.name:
                most = max(most, step.executions)
            i += 1
        return int(most)

    def explain(self, with_advice=True):
        """Where memory is fullest, and what would help: the change that promises most
        is planned, the others are worked out. `tremula plan` searches longer."""
        block = c_void_p()
        core._call("trm_program_explain", self._handle, with_advice, byref(block))
        return core._take_block(block).decode("utf-8", "replace")

    def __str__(self):
        machine = self.bytes_per_tile * self.tiles_per_ipu * self.num_ipus
        fits = {(True, False): "yes", (True, True): "barely", (False, True): "just not",
                (False, False): "no"}[self.fits, self.is_close]
        rows = [
            ("fits", fits),
            ("fullest tile", f"{100 * self.worst_tile_bytes / self.bytes_per_tile:.1f} % of "
                             f"{self.bytes_per_tile} bytes, "
                             f"{_bar(self, 'worst_tile_bytes')} for {self.bytes_like} like these"),
            ("all tiles", f"{_bytes(self.max_step_bytes)} of {_bytes(machine)}"),
            ("always live", f"{_bytes(self.always_live_bytes)}, of which weights "
                            f"{_bytes(self.weights_bytes)}"),
            ("cycles", f"{self.cycles} ({1e3 * self.seconds:.3f} ms), "
                       f"{_bar(self, 'cycles')} for {self.cycles_like} like these"),
            *((f"  {kind.replace('_', ' ')}", str(getattr(self, f"{kind}_cycles")))
              for kind in _CYCLES if getattr(self, f"{kind}_cycles")),
            ("flops", str(self.flops)),
        ]
        several = "s" if self.num_ipus > 1 else ""
        head = f"{self.target or 'as compiled'}, {self.num_ipus} IPU{several}"
        if self.replicas > 1:
            head += f", {self.replicas} replicas"
        return "\n".join([head] + [f"  {name:18}{value}" for name, value in rows])


def plan(executable, target=None, ipus=None):
    """Plans a core.Executable; returns a Plan, also of a program that does not fit.

    target   mk1, mk2, bow or a file that describes a machine; None: what it was compiled for
    ipus     on how many IPUs: a program of one IPU is cut into that many shards, another one is
             replicated. None: those that the program names

    Raises core.NotFoundError for an unknown target, and core.InvalidArgumentError for a number of
    IPUs that is no multiple of the program's own.
    """
    loaded = _library()
    machine, program = c_void_p(), c_void_p()
    options = _Options(size=ctypes.sizeof(_Options))
    loaded.trm_program_options_of(executable._handle, byref(options))
    shards = loaded.trm_executable_num_shards(executable._handle)
    ipus = shards if ipus is None else ipus
    if ipus < 1 or ipus % shards:
        raise core.InvalidArgumentError(
            f"ipus={ipus} is no multiple of the {shards} IPU{'s' if shards > 1 else ''} that the "
            "program itself is on")
    split = shards == 1 and ipus > 1
    options.num_ipus, options.replicas = shards, 1 if split else ipus // shards
    if target is not None:
        core._call("trm_target_load", target.encode(), byref(machine))
    try:
        core._call("trm_program_create_for_executable", executable._handle, machine,
                   byref(options), byref(program))
        if split:
            whole, program = program, c_void_p()
            try:
                core._call("trm_program_create_split", whole, ipus, byref(program))
            finally:
                loaded.trm_program_free(whole)
        return Plan(program, target and loaded.trm_target_string(machine, b"name").decode())
    finally:
        loaded.trm_target_release(machine)
