"""The files of a profile, opened by readers that are not ours, hold the right numbers."""

import json
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

import pva
from profiled_programs import UNFED, largest

SCHEMA = pathlib.Path(__file__).resolve().parents[3] / "data/schema/vars.capnp"


@pytest.fixture(scope="module")
def folder(unfed):
    return largest(unfed)


@pytest.fixture
def database(folder):
    connection = sqlite3.connect(folder / "profile.pop")
    yield connection
    connection.close()


def number(database, query):
    return database.execute(query).fetchone()[0]


def test_one_directory_an_executable(unfed):
    directories = list(unfed.glob("tf_report__*"))
    assert len(directories) > 1
    for one in directories:
        assert {path.name for path in one.iterdir()} == {
            "archive.a", "framework.json", "profile.pop", "vars.capnp"}
    assert (unfed / "debug.cbor").exists()


def test_traces_of_the_system_analyser_are_refused_once(unfed):
    assert (unfed / "stderr").read_text(encoding="utf-8").count("PVTI_OPTIONS is set") == 1


def test_known_tables_have_the_known_columns(database):
    for table, columns in {
            "steps": "id type program compute_set",
            "steps_by_ipu": "step_id cycles active_tiles cycles_base active_cycles_from_min "
                            "active_cycles_to_max",
            "programs": "id name", "compute_sets": "compute_set name",
            "vars_info": "tile category size_bytes", "var_categories": "id name",
            "memory_by_tile": "total"}.items():
        database.execute(f"SELECT {', '.join(columns.split())} FROM {table} LIMIT 1")


def test_sums_agree(database):
    total = number(database, "SELECT sum(total) FROM memory_by_tile")
    assert total > 0
    assert total == number(database, "SELECT sum(size_bytes) FROM vars_info")
    assert total == number(database, "SELECT value FROM totals WHERE key = 'memory_bytes'")
    # By tile, always live and not.
    assert not database.execute(
        "SELECT m.tile FROM memory_by_tile m LEFT JOIN (SELECT tile, sum(size_bytes) AS sum,"
        " sum(size_bytes * always_live) AS always FROM vars_info GROUP BY tile) v"
        " ON v.tile = m.tile WHERE sum <> total OR always <> m.always_live"
        " OR total <> m.always_live + m.not_always_live"
        " OR total_including_gaps <> total + gaps").fetchall()
    # Steps to the run.
    cycles = number(database, "SELECT cycles FROM programs WHERE id = 0")
    assert cycles == number(database, "SELECT sum(cycles - cycles_overlapped) FROM trace")
    for run, base, wait, load, of_run in database.execute(
            "SELECT id, cycles_base, wait_cycles, load_cycles, cycles FROM runs").fetchall():
        assert of_run == cycles + wait + load
        first, ends, steps = database.execute(
            "SELECT min(cycles_base), max(cycles_base + cycles), sum(cycles) FROM steps_by_ipu"
            " WHERE run = ? AND ipu = 0", [run]).fetchone()
        assert (first, ends, steps) == (base, base + of_run, of_run)
    # The peak of liveness is the largest step, and the fullest tile.
    assert (number(database, "SELECT max(live_worst) FROM programs")
            == number(database, "SELECT max(total_including_gaps) FROM memory_by_tile"))


def test_vars_capnp_agrees_with_profile_pop(folder, database):
    capnp = pytest.importorskip("capnp")
    schema = capnp.load(str(SCHEMA))
    with open(folder / "vars.capnp", "rb") as file:
        root = schema.LoweredVariables.read(file, traversal_limit_in_words=2 ** 40)
    tiles = root.numIpus * root.tilesPerIpu
    peaks = [row[0] for row in database.execute(
        "SELECT peak_program FROM memory_by_tile ORDER BY tile")]
    always, other = [0] * tiles, [0] * tiles
    runs = [[(run.firstTile, run.numTiles, run.bytes) for run in one.runs]
            for one in root.distributions]
    for one, of in zip(root.distributions, runs):
        assert one.totalBytes == sum(count * size for _, count, size in of)
    for variable in root.variables:
        for first, count, size in runs[variable.distribution]:
            for tile in range(first, first + count):
                if variable.alwaysLive:
                    always[tile] += size
                elif variable.firstStep <= peaks[tile] < variable.endStep:
                    other[tile] += size
    stored = database.execute("SELECT always_live, not_always_live FROM memory_by_tile "
                              "ORDER BY tile").fetchall()
    assert stored == list(zip(always, other))
    names = [row[0] for row in database.execute("SELECT name FROM variables ORDER BY id")]
    assert names == [variable.name for variable in root.variables]
    # Our own reader, which needs no library, sees the same.
    ours = pva.openReport(str(folder)).compilation.loweredVariables
    assert ours.distributions == runs
    assert [one["name"] for one in ours.variables] == names


def test_debug_cbor(unfed, folder, database):
    cbor2 = pytest.importorskip("cbor2")
    maps = []
    with open(unfed / "debug.cbor", "rb") as file:
        size = (unfed / "debug.cbor").stat().st_size
        while file.tell() < size:
            maps.append(cbor2.load(file))
    assert maps[0]["stream"] == number(
        database, "SELECT value FROM meta WHERE key = 'debug_stream'")
    contexts = {one["id"]: one for one in maps[1:]}
    assert len(contexts) == len(maps) - 1
    for one in contexts.values():
        assert one["parentId"] in contexts or one["parentId"] == 0
        assert {"layer", "name", "location", "properties"} <= set(one)
    rows = database.execute("SELECT debug_id, hlo_name, op_name, plan FROM sources").fetchall()
    assert any(plan for *_, plan in rows)
    for index, hlo_name, op_name, plan in rows:
        assert contexts[index]["name"] == hlo_name
        assert contexts[index]["properties"].get("plan") == plan
        if op_name:
            assert contexts[contexts[index]["parentId"]]["name"] == op_name
    assert any(op == "first/dense/MatMul" for _, _, op, _ in rows)
    assert dict(pva.openReport(str(folder)).debugContexts.items()) == contexts


def test_archive(folder, database):
    if shutil.which("ar") is None:
        pytest.skip("ar is not installed")
    members = subprocess.run(["ar", "t", folder / "archive.a"], check=True, text=True,
                             capture_output=True).stdout.split()
    assert members == [f"tile{tile}.mem" for tile in range(1472)]
    text = subprocess.run(["ar", "p", folder / "archive.a", "tile7.mem"], check=True, text=True,
                          capture_output=True).stdout
    values = {name: int(size) for name, size in map(str.split, text.splitlines())}
    assert (values["alwaysLive"], values["notAlwaysLive"]) == database.execute(
        "SELECT always_live, not_always_live FROM memory_by_tile WHERE tile = 7").fetchone()
    assert (sum(size for name, size in values.items() if name.startswith("category."))
            == values["alwaysLive"] + values["notAlwaysLive"])


def test_framework_json(folder):
    import tensorflow as tf
    content = json.loads((folder / "framework.json").read_text())
    assert (content["framework"], content["version"]) == ("TensorFlow", tf.__version__)
    assert content["engineOptions"]["autoReport.all"] == "true"
    instructions = [one for computation in content["computations"]
                    for one in computation["instructions"]]
    names = {one["name"] for one in instructions}
    assert any(one["opcode"] == "dot" for one in instructions)
    assert all(operand in names for one in instructions for operand in one["operands"])


def test_parts_can_be_turned_off(profiled):
    folder, _ = profiled(UNFED, {"autoReport.outputArchive": "false",
                                 "autoReport.outputDebugInfo": "false",
                                 "autoReport.outputLoweredVars": "false",
                                 "autoReport.outputSerializedGraph": "true",
                                 "autoReport.executionProfileProgramRunCount": "5",
                                 "autoReport.directory": "deep/er"})
    one = largest(folder / "deep/er")
    assert {path.name for path in one.iterdir()} == {
        "framework.json", "profile.pop", "serialized_graph.hlo"}
    assert not (folder / "debug.cbor").exists()
    assert len(pva.openReport(str(one)).execution.runs) == 5
