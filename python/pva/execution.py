"""What was run: the recorded runs, and the steps of each.

Loops have their first two turns as steps of their own; one more step stands for all the others
(Step.iterations). What runs beside something that takes longer, such as a pipeline's stages on
other IPUs, says so (Step.cyclesOverlapped): cycles less cyclesOverlapped add up to those of the
run.
"""

import functools

from pva.programs import HostWork, spread
from pva.sound import DamagedError


class Range:
    def __init__(self, least, most):
        self.min, self.max = least, most


class ActiveCycles:
    """When tiles are busy: cyclesFrom and cyclesTo, each min and max over tiles."""

    def __init__(self, row):
        base = row["cycles_base"]
        self.cyclesFrom = Range(base + row["active_cycles_from_min"],
                                base + row["active_cycles_from_max"])
        self.cyclesTo = Range(base + row["active_cycles_to_min"],
                              base + row["active_cycles_to_max"])


class StepOnIpu:
    """A step on one IPU: cycles, cyclesFrom, cyclesTo, activeTiles, activeCycles, dataIn, dataOut
    (bytes on all tiles), tileBalance (0 to 1)."""

    def __init__(self, row):
        self.cycles, self.activeTiles = row["cycles"], row["active_tiles"]
        self.cyclesFrom = row["cycles_base"]
        self.cyclesTo = self.cyclesFrom + self.cycles
        self.activeCycles = ActiveCycles(row)
        self.dataIn, self.dataOut = row["data_in"], row["data_out"]
        busy = row["active_cycles_to_max"]
        self.tileBalance = row["active_cycles_to_min"] / busy if busy else 0.


_IDLE = {"cycles": 0, "active_tiles": 0, "active_cycles_from_min": 0, "active_cycles_from_max": 0,
         "active_cycles_to_min": 0, "active_cycles_to_max": 0, "data_in": 0, "data_out": 0}


class Step:
    """A step: program, ipus (one for each IPU of a replica; idle ones have no cycles), iterations
    that it stands for, stage (of a pipeline, in the order that a mini-batch goes through them; -1:
    none), cycles, cyclesOverlapped of them."""

    def __init__(self, program, iterations, stage, rows, num_ipus):
        self.program, self.iterations, self.stage = program, iterations, stage
        self.cyclesOverlapped = rows[0]["cycles_overlapped"]
        idle = {**_IDLE, "cycles_base": rows[0]["cycles_base"]}
        by_ipu = {row["ipu"]: row for row in rows}
        self.ipus = [StepOnIpu(by_ipu.get(i, idle)) for i in range(num_ipus)]
        self.cyclesFrom = rows[0]["cycles_base"]
        self.cycles = max(ipu.cycles for ipu in self.ipus)
        self.cyclesTo = self.cyclesFrom + self.cycles

    @property
    def computeSets(self):
        computeset = self.program.computeset
        return [computeset] if computeset else []

    @property
    def cyclesByTile(self):
        """Of all IPUs, without sync: those of the program. Of a row that stands for more turns, and
        of a profile that does not say, estimated from the worst tile and the mean
        (pva.programs.spread)."""
        program, row = self.program, self.program._row
        tiles = program._compilation.target.tilesPerIpu
        if row["tile_cycles"] and program._compilation.has_runs_of_tiles:
            of_ipu = program.estimatedCyclesByTile
            return [cycles for ipu in self.ipus
                    for cycles in (of_ipu if ipu.cycles else [0] * tiles)]
        return [cycles for ipu in self.ipus
                for cycles in spread(ipu.cycles, row["cycles_mean"] if ipu.cycles else 0,
                                     ipu.activeTiles, tiles)]

    def __repr__(self):
        return f"<Step {self.program.type.name} {self.program.name}: {self.cycles} cycles>"


class Run:
    """A run: name, steps, cycles (with what comes before it: waitCycles for the host, loadCycles
    when the device ran another program before), and the host's own seconds: startSeconds,
    hostSeconds (the run), waitSeconds (before it)."""

    def __init__(self, execution, row):
        self._execution, self._id = execution, row["id"]
        self.name = row["name"]
        self.cyclesFrom, self.cycles = row["cycles_base"], row["cycles"]
        self.cyclesTo = self.cyclesFrom + self.cycles
        self.waitCycles, self.loadCycles = row["wait_cycles"], row["load_cycles"]
        self.startSeconds, self.hostSeconds = row["start_seconds"], row["host_seconds"]
        self.waitSeconds = row["wait_seconds"]

    @functools.cached_property
    def steps(self):
        return self._execution.steps_of(self._id)


class TotalCycles:
    def __init__(self, total):
        self.total = total

    def __int__(self):
        return self.total


class ExecutionReport:
    """report.execution."""

    def __init__(self, database, compilation):
        self._database, self._compilation = database, compilation
        self._host_work = {index: HostWork(compilation, index) for index in (-1, -2)}

    @functools.cached_property
    def runs(self):
        return [Run(self, row) for row in
                self._database.rows("runs", "SELECT * FROM runs ORDER BY id")]

    @property
    def steps(self):
        """Those of all runs."""
        return [step for run in self.runs for step in run.steps]

    @staticmethod
    def blocks(tile):
        """Programs that were timed on a tile by themselves (PopVision's lightweight profiling):
        none, for cycles are estimated and no program is instrumented."""
        del tile
        return []

    @property
    def totalCycles(self):
        return TotalCycles(sum(run.cycles for run in self.runs))

    def steps_of(self, run):
        rows = {}
        for row in self._database.rows(
                "steps_by_ipu",
                "SELECT * FROM steps_by_ipu WHERE run = ? ORDER BY step_id, ipu", run):
            rows.setdefault(row["step_id"], []).append(row)
        steps = self._database.rows(
            "steps",
            "SELECT id, program, iterations, stage FROM steps WHERE run = ? ORDER BY id", run)
        for step in steps:
            if step["id"] not in rows:
                raise DamagedError(f"{self._database.path} is damaged: a step of its run {run} is "
                                   "on no IPU")
        programs = self._compilation.all_programs
        count = self._compilation.target.ipusPerReplica
        return [Step(programs[step["program"]] if step["program"] >= 0
                     else self._host_work[step["program"]],
                     step["iterations"], step["stage"], rows[step["id"]], count)
                for step in steps]
