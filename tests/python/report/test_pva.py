"""The module pva: what programs written for PopVision's API do with a report."""

import glob
import json
import os
import pathlib
import subprocess

import pva
import pytest
from profiled_programs import FED, PROGRAM, SWITCHING, largest
from tremula import core


@pytest.fixture(scope="module")
def report(unfed):
    return pva.openReport(str(largest(unfed) / "profile.pop"))


def test_compilation(report):
    compilation = report.compilation
    assert compilation.target.numTiles == compilation.target.tilesPerIpu == 1472
    assert compilation.target.numIPUs == 1
    assert compilation.graph.numComputeSets == len(compilation.computeSets) > 3
    assert any("MatMul" in one.name for one in compilation.computeSets)
    assert len(compilation.tiles) == len(compilation.ipus[0].tiles) == 1472
    tile = compilation.tiles[0].memory
    assert tile.total.includingGaps >= tile.total.excludingGaps > 0
    assert tile.alwaysLiveBytes + tile.notAlwaysLiveBytes == tile.total.excludingGaps
    assert tile.category.stack.total == 0  # as code, where that is compiled
    assert sum(one.total for _, one in tile.category) == tile.total.excludingGaps
    assert report.poplarVersion.string and report.version.major == 2
    types = {one.type for one in compilation.programs}
    assert {pva.Program.Type.DoExchange, pva.Program.Type.OnTileExecute,
            pva.Program.Type.StreamCopyMid} <= types
    root = compilation.programs[0]
    assert sum(child.cycles for child in root.children) == root.cycles


def test_the_host_chooses_what_runs(report):
    """The main program is the second choice; weights are sent to the IPU by the first."""
    switch, = (one for one in report.compilation.programs
               if one.type == pva.Program.Type.OnEveryTileSwitch)
    download, main, upload = switch.children
    assert main is report.compilation.programs[0]
    for one in download, upload:
        assert [child.type.name for child in one.children] == [
            "StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd"]
    seen = []

    class Visitor(pva.ProgramVisitor):
        def visitOnEveryTileSwitch(self, program):
            seen.extend(program.children)

    Visitor().visit(switch)
    assert seen == [download, main, upload]


def test_liveness_and_variables(report):
    compilation = report.compilation
    peak = max(one.notAlwaysLiveMemory.bytes for one in compilation.livenessProgramSteps)
    assert peak > 0
    always = sum(one.size for one in compilation.alwaysLiveVariables)
    assert always == sum(tile.memory.alwaysLiveBytes for tile in compilation.tiles)
    assert sum(one.bytes for one in compilation.loweredVariables.allBriefVars
               if one.alwaysLive) == always
    for tile in (0, 700):
        steps = [one.notAlwaysLiveMemoryForTile(tile).bytes
                 for one in compilation.livenessProgramSteps]
        assert max(steps) == compilation.tiles[tile].memory.notAlwaysLiveBytes
    by_step = [sum(one.notAlwaysLiveMemoryForTile(tile).bytes for tile in range(3))
               for one in compilation.livenessProgramSteps[:1]]
    assert by_step[0] <= compilation.livenessProgramSteps[0].notAlwaysLiveMemory.bytes


def test_inputs_have_tensorflow_s_names(report):
    rows = report._database.rows(
        "variables", "SELECT name, is_weight FROM variables WHERE is_input ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("Placeholder", 0), ("first/dense/kernel", 1), ("first/dense/bias", 1),
        ("second/dense/kernel", 1), ("second/dense/bias", 1)]
    assert {"first/dense/kernel", "second/dense/bias"} <= {
        one.name for one in report.compilation.alwaysLiveVariables}


def test_a_switch_of_programs_is_a_step(profiled):
    """The second program is loaded after the first, and the first again: not the other runs."""
    folder, _ = profiled(SWITCHING, {"autoReport.executionProfileProgramRunCount": "4"})
    report = pva.openReport(str(largest(folder)))
    runs = report.execution.runs
    assert [run.loadCycles > 0 for run in runs] == [True, False, True, False]
    totals = report.compilation.totals
    assert runs[0].loadCycles == totals["load_cycles"]
    assert totals["load_bytes"] == totals["always_live_bytes"] + totals["code_bytes"]
    step, = [one for one in runs[2].steps if one.program.name == "LoadExecutable"]
    assert step.ipus[0].cycles == runs[2].loadCycles
    assert step.ipus[0].dataIn == totals["load_bytes"]
    assert step.program.type == pva.Program.Type.StreamCopyMid
    assert sum(one.ipus[0].cycles for one in runs[2].steps) == runs[2].cycles
    # While the other program ran the IPU was not waiting.
    assert runs[2].waitSeconds <= runs[2].startSeconds - runs[1].startSeconds - runs[1].hostSeconds
    assert all(one.program.name != "LoadExecutable" for one in runs[1].steps)


def test_vertices_and_variables_of_a_step(report):
    compilation = report.compilation
    one = max(compilation.computeSets, key=lambda one: one.numVertices)
    for vertex in one.vertices:
        assert sum(vertex.countByTile) == vertex.count and len(vertex.countByTile) == 1472
    on_tiles = sum(vertex.count for tile in compilation.tiles for vertex in tile.memory.vertices)
    assert on_tiles == compilation.graph.numVertices
    for step in compilation.livenessProgramSteps[::5]:
        memory = step.notAlwaysLiveMemory
        assert memory.bytes == sum(variable.size for variable in memory.variables)
    assert report.execution.blocks(0) == []
    assert compilation.target.minSyncDelay >= 0


def test_found_as_programs_find_it(unfed, monkeypatch):
    """By name in the working directory, and by a pattern, as the original's test helpers do."""
    monkeypatch.chdir(largest(unfed))
    count = pva.openReport("profile.pop").compilation.graph.numComputeSets
    assert pva.openReport(profile="profile.pop", debugInfo="../debug.cbor").debugContexts
    monkeypatch.chdir(unfed)
    found = {path: pva.openReport(path) for path in glob.glob("tf_report_*/*.pop")}
    assert count in [one.compilation.graph.numComputeSets for one in found.values()]


def test_timeline_of_the_host(unfed, tmp_path):
    """Lowering, passes and runs are marked, and nest; the export holds them and the IPU's steps."""
    path, = unfed.glob("*.pvti")
    trace = pva.openTrace(str(path))
    events = [event for process in trace.processes for thread in process.threads
              for event in thread.events]
    assert {event.channel for event in events} <= {"Drivers", "Poplar", "Framework"}
    compiled = next(event for event in events if event.label.startswith("compile "))
    assert any(child.label == "pass fuse" and child.timestamp >= compiled.timestamp
               and child.duration <= compiled.duration for child in compiled.children())
    assert any(event.label.startswith("lower ") and event.channel == "Framework"
               for event in events) or compiled
    runs = [event for event in events if event.label.startswith("Engine::run ")]
    profile = largest(unfed)
    report = pva.openReport(str(profile))
    first = report.execution._database.meta["first_run_us"]
    assert any(abs(run.timestamp - first) < 1e6 for run in runs)
    out = tmp_path / "trace.json"
    tool = pathlib.Path(core.library_path()).parents[1] / "bin" / "tremula"
    subprocess.run([tool, "trace", path, profile, "-o", out], check=True)
    rows = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
    assert {"X", "M"} <= {row["ph"] for row in rows}
    steps = [row for row in rows if row["ph"] == "X" and row["pid"] >= 1 << 30]
    run = report.execution.runs[0]
    assert len(steps) >= len([step for step in run.steps if step.ipus[0].cycles])
    clock = report.compilation.target.clockFrequency / 1e6
    in_order = sorted(row["ts"] for row in steps)
    assert abs(in_order[0] - first) < 1 + run.waitCycles / clock
    assert [row["args"]["name"] for row in rows if row["ph"] == "M" and row["pid"] == 1 << 30] == [
        "IPU 0"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"nothing of the kind" * 100])
def test_no_timeline(tmp_path, content):
    with pytest.raises(FileNotFoundError):
        pva.openTrace(str(tmp_path / "none.pvti"))
    path = tmp_path / "bad.pvti"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="no timeline|damaged"):
        pva.openTrace(str(path))


def test_visitors_and_execution(report):
    class Visitor(pva.ProgramVisitor):
        def __init__(self):
            super().__init__()
            self.names, self.vertices = [], 0

        def visitOnTileExecute(self, program):
            self.names.append(program.name)
            self.vertices += sum(vertex.count for vertex in program.computeset.vertices)

    visitor = Visitor()
    run = report.execution.runs[0]
    for step in run.steps:
        step.program.accept(visitor)
    assert any("first/dense/MatMul" in name for name in visitor.names)
    assert visitor.vertices == report.compilation.graph.numVertices
    assert sum(step.ipus[0].cycles for step in run.steps) == run.cycles
    assert report.execution.totalCycles.total == sum(one.cycles for one in report.execution.runs)
    assert len(report.execution.runs) == 2
    worst = max(run.steps, key=lambda step: step.ipus[0].cycles)
    assert max(worst.cyclesByTile) <= worst.ipus[0].cycles
    for step in run.steps:
        if step.program.computeset:
            assert step.cyclesByTile == step.program.computeset.estimatedCyclesByTile
    for program in report.compilation.all_programs:
        tiles = program.estimatedCyclesByTile
        if program.computeset:
            assert max(tiles) == program.computeset.estimatedCycles
            assert tiles == program.computeset.estimatedCyclesByTile
        assert sum(program.codeBytesByTile) == program.codeBytes


def test_operations(report):
    operations = {one.name: one for one in pva.OperationAnalysis(report).operations}
    multiply = operations["first/dense/MatMul"]
    assert multiply.layer == "first/dense" and multiply.parents == ["first", "first/dense"]
    assert multiply.flops >= 2 * 32 * 100 * 64
    assert "plan" in multiply.debugContext.json["properties"]
    assert sum(one.cycles for one in operations.values()) <= report.compilation.totals["cycles"]


def test_feeds_keep_the_ipu_busy(unfed, fed):
    """Without feeds the IPU waits for the host before every batch, with them once in 1000."""
    work = []
    for folder in (unfed, fed):
        first, run = pva.openReport(str(largest(folder))).execution.runs[:2]
        waits = [step for step in run.steps if step.program.name == "WaitForHost"]
        assert waits == run.steps[:1] and waits[0].ipus[0].cycles == run.waitCycles > 0
        assert first.waitCycles == 0
        work.append(run.cycles - run.waitCycles - run.loadCycles)
    assert work[1] > 100 * work[0] > 0


def test_loops_stay_small(fed):
    """1000 batches are not 1000 times the steps, and the cycles are those of all."""
    one = largest(fed)
    report = pva.openReport(str(one))
    loops = [program for program in report.compilation.programs if program.repeatCount == 1000]
    assert loops
    run = report.execution.runs[0]
    assert any(step.iterations == 998 for step in run.steps)
    assert len(run.steps) < 4 * len(report.compilation.programs)
    assert sum(step.ipus[0].cycles for step in run.steps) == run.cycles
    assert sum(path.stat().st_size for path in one.iterdir()) < 5_000_000


LARGE = PROGRAM + """
    def network(x):
        w = tf.get_variable("w", [16384, 15000], initializer=tf.zeros_initializer())
        return tf.reduce_sum(tf.matmul(x, w))
    x = tf.placeholder(tf.float32, [1, 16384])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(network, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        try:
            print("result", session.run(result, {x: np.ones([1, 16384], np.float32)}))
        except tf.errors.InternalError as error:
            print("refused", error.message)
"""


def test_out_of_memory_on_virtual_ipus(profiled):
    folder, done = profiled(LARGE, check=False)
    text = done.stdout + done.stderr
    assert "[Poplar][Compile engine] graph_memory_allocation_error: Out of memory" in text
    assert "result" not in done.stdout
    fits = [pva.openReport(str(one)).compilation.totals["fits"]
            for one in folder.glob("tf_report__*")]
    assert 0 in fits


def test_out_of_memory_on_the_model(profiled):
    folder, done = profiled(LARGE, TF_POPLAR_FLAGS="--use_ipu_model")
    assert "result [0.0]" in done.stdout or "result [np.float32(0.0)]" in done.stdout
    assert "does not fit" in done.stderr
    assert any(not pva.openReport(str(one)).compilation.totals["fits"]
               for one in folder.glob("tf_report__*"))


def test_tremula_report(unfed, fed):
    tool = os.path.join(os.environ["TREMULA_LIBRARY_DIR"], "../bin/tremula")
    if not os.path.exists(tool):
        pytest.skip("the tool is not built")

    def run(*arguments):
        return subprocess.run([tool, "report", *arguments], check=True, text=True,
                              capture_output=True).stdout
    first, second = str(largest(unfed)), str(largest(fed))
    assert run(first) == run(first)
    last = run(first).splitlines()[-1]
    assert last.startswith("on one MK2: ") and "samples/s" in last and "this CPU: " in last
    compared = run(first, second)
    assert "temporary A" in compared and compared.splitlines()[-1].startswith("B: on one MK2")


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        pva.openReport(str(tmp_path))
    (tmp_path / "profile.pop").write_text("nothing")
    with pytest.raises(ValueError):
        pva.openReport(str(tmp_path))


def test_fed_batches_are_counted(fed):
    assert pva.openReport(str(largest(fed)))._database.meta["items_per_run"] == 32 * 1000
    assert FED.count("1000") == 1
