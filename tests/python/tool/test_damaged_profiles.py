"""Profiles that are cut short, changed or something else: pva and `tremula report` say so, in a
message of their own, and end. TREMULA_DAMAGE_ROUNDS is how many files are changed at random."""

import os
import random
import shutil
import sqlite3
import struct

import pytest

import pva
from pva import sound

MODULE = """HloModule looped
body {
  p = (s32[], f32[4,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4,6] get-tuple-element(p), index=1
  w = f32[6,6] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[4,6], f32[6,6]) tuple(next, y, w)
}
condition {
  p = (s32[], f32[4,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[4,6] iota(), iota_dimension=1
  w = f32[6,6] iota(), iota_dimension=0
  zero = s32[] constant(0)
  t = (s32[], f32[4,6], f32[6,6]) tuple(zero, x, w)
  l = (s32[], f32[4,6], f32[6,6]) while(t), condition=condition, body=body
  ROOT y = f32[4,6] get-tuple-element(l), index=1
}
"""
ROUNDS = int(os.environ.get("TREMULA_DAMAGE_ROUNDS", "60"))


@pytest.fixture(scope="module")
def profile(tmp_path_factory, tool_in):
    """The folder of a profile of a small program with a loop, that was run twice."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "looped.hlo").write_text(MODULE)
    tool = tool_in(folder)
    tool.ok("compile", "looped.hlo", "-o", "x", "--option", "tiles_per_ipu=4")
    tool.ok("run", "x", "--repeat", "2", POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}')
    found, = folder.glob("tf_report__*")
    shutil.copy(folder / "debug.cbor", found)
    connection = sqlite3.connect(found / "profile.pop", isolation_level=None)
    connection.execute("PRAGMA page_size=1024")  # small: more of it is what a random byte hits
    connection.execute("VACUUM")
    connection.close()
    return found


def visit(thing, depth=0, seen=None):
    """Reads every property of every object of pva below `thing`, some of each list."""
    seen = set() if seen is None else seen
    if isinstance(thing, (list, tuple)):
        for one in [*thing[:3], *thing[-2:]]:
            visit(one, depth, seen)
    elif isinstance(thing, dict):
        visit(list(thing.values()), depth, seen)
    elif type(thing).__module__.startswith("pva") and depth < 8 and id(thing) not in seen:
        seen.add(id(thing))
        repr(thing)
        for name in dir(thing):
            if not name.startswith("_"):
                value = getattr(thing, name)
                if not callable(value):
                    visit(value, depth + 1, seen)


def read_all(folder):
    """Everything that pva has of a profile."""
    report = pva.openReport(str(folder))
    visit(report)
    str(report.poplarVersion)
    compilation = report.compilation
    for tile in (0, 3):
        compilation.alwaysLiveVariablesForTile(tile)
    steps = compilation.livenessProgramSteps
    for one in steps[:2] + steps[-1:]:
        one.notAlwaysLiveMemoryForTile(0)
    for one in pva.OperationAnalysis(report).operations:
        visit(one)
        _ = one.debugContext
    visitor = pva.ProgramVisitor()
    for one in compilation.programs:
        visitor.visit(one)
    for one in compilation.loweredVariables.allBriefVars:
        visit(one)


def check(tool, folder, refused=None):
    """Reads the profile in every way: what comes is an answer, or an error that names the file.
    `refused`: whether pva must refuse it."""
    said = None
    try:
        read_all(folder)
    except (sound.DamagedError, FileNotFoundError) as error:
        said = str(error)
        assert str(folder) in said, said
    if refused is not None:
        assert bool(said) == refused, said
    for arguments in (("report", folder), ("report", folder, folder, "--json")):
        done = tool(*arguments)
        assert done.returncode in (0, 1), (arguments, done)
        if done.returncode == 1:
            assert done.stderr.startswith("tremula: ") and done.stderr.count("\n") == 1
            assert str(folder) in done.stderr, done.stderr
    return said


@pytest.fixture
def copy(profile, tmp_path):
    """copy(): a folder with the profile, which may be changed."""
    def make():
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(profile, folder)
    return make


def test_the_whole_one_is_read(tool, profile):
    check(tool, profile, refused=False)
    assert pva.openReport(str(profile)).poplarVersion.major == 0


def test_columns_are_those_that_are_written(profile):
    kinds = {"INTEGER": "i", "REAL": "r", "TEXT": "t"}
    connection = sqlite3.connect(profile / "profile.pop")
    names = {row[0] for row in connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    assert names == {*sound.COLUMNS, *sound.NEWER}
    for table in names:
        columns = f"{sound.COLUMNS.get(table, '')} {sound.NEWER.get(table, '')}".strip()
        written = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
        if not columns:
            assert [row[0] for row in written] == ["key", "value"]
        elif table in sound.VIEWS:
            assert {one.split(":")[0] for one in columns.split()} <= {row[0] for row in written}
        else:
            assert columns.replace(":n", ":t").split() == [
                f"{name}:{kinds[kind]}" for name, kind in written]
    connection.close()


def test_cut_short(tool, copy):
    whole = (copy() / "profile.pop").read_bytes()
    for size in [0, 1, 100, *range(4096, len(whole), 4096), len(whole) - 1]:
        folder = copy()
        (folder / "profile.pop").write_bytes(whole[:size])
        check(tool, folder)
        assert size > 4096 or check(tool, folder, refused=True)


def test_changed_at_random(tool, copy):
    generator = random.Random(7)
    for _ in range(ROUNDS):
        folder = copy()
        path = folder / generator.choice(["profile.pop"] * 4 + ["vars.capnp", "debug.cbor"])
        data = bytearray(path.read_bytes())
        for _ in range(generator.choice([1, 3, 30])):
            at = generator.randrange(len(data))
            data[at] = generator.choice([0, 255, data[at] ^ 1 << generator.randrange(8)])
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)):]
        path.write_bytes(data)
        check(tool, folder)


def edit(folder, *statements):
    connection = sqlite3.connect(folder / "profile.pop", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    for one in statements:
        connection.execute(one)
    connection.close()


def test_values_of_other_kinds(tool, copy):
    """A value of each column in turn is text, nothing, negative, or huge."""
    generator = random.Random(11)
    for table, columns in sound.COLUMNS.items():
        if table in sound.VIEWS:
            continue
        names = [one.split(":")[0] for one in columns.split()] or ["value"]
        for name in names if ROUNDS > 60 else generator.sample(names, min(2, len(names))):
            value = generator.choice(["'text'", "NULL", "-1", "9223372036854775807", "1e300",
                                      "x'ff00'"])
            folder = copy()
            try:
                edit(folder, f"UPDATE {table} SET {name} = {value} WHERE rowid = "
                             f"(SELECT max(rowid) FROM {table})" if columns and table not in
                     ("engine_options",) else f"UPDATE {table} SET {name} = {value}")
            except sqlite3.IntegrityError:
                continue
            check(tool, folder)


@pytest.mark.parametrize("statements", [
    ["DROP TABLE programs"], ["DROP TABLE totals"], ["DROP VIEW steps"], ["DROP TABLE trace"],
    ["ALTER TABLE variables RENAME COLUMN worst_bytes TO bytes"],
    ["ALTER TABLE runs RENAME TO walks"],
    ["UPDATE programs SET end = id WHERE id > 0"],  # a child of its own
    ["UPDATE programs SET parent = id"],
    ["UPDATE programs SET end = 9223372036854775807 WHERE id = 1"],
    ["UPDATE programs SET compute_set = 1000000 WHERE id = 2"],
    ["UPDATE programs SET type = 'mro'", "UPDATE programs SET id = id + 1000 WHERE id = 5"],
    ["UPDATE target SET value = 4611686018427387904 WHERE key = 'tiles_per_ipu'"],
    ["UPDATE target SET value = 'many' WHERE key = 'ipus_per_replica'"],
    ["DELETE FROM target WHERE key = 'bytes_per_tile'"],
    ["DELETE FROM totals WHERE key = 'num_edges'"],
    ["UPDATE compute_sets SET shared_with = compute_set"],
    ["UPDATE vertices SET count = -5"],
    ["UPDATE var_categories SET name = '__class__'"],
    ["UPDATE liveness SET ipu = 7"],
    ["UPDATE programs SET executions = 9e999"],
    ["UPDATE meta SET value = 3 WHERE key = 'format'"],
    ["DROP TABLE notes", "CREATE VIEW notes AS WITH RECURSIVE n(id, text) AS "
     "(VALUES(1, 'x') UNION ALL SELECT id, text FROM n) SELECT * FROM n"],
    ["DROP VIEW steps", "CREATE VIEW steps AS WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL SELECT "
     "id FROM n) SELECT id, 'x' AS type, 1 AS program, 1 AS compute_set, 1 AS stage, 1 AS run, "
     "1 AS iterations FROM n"],
], ids=lambda statements: statements[0])
def test_what_pva_refuses(tool, copy, statements):
    folder = copy()
    edit(folder, *statements)
    check(tool, folder, refused=True)


def test_pages_in_a_circle(tool, copy):
    """An inner page of `trace` all of whose children are itself, or its first one."""
    folder = copy()
    edit(folder, "INSERT INTO trace SELECT t.id + 100000 + 1000 * n.id, t.type, t.program, "
         "t.compute_set, t.ipu, t.stage, t.iterations, t.cycles_base, t.cycles, "
         "t.cycles_overlapped, t.sync_cycles, t.active_tiles, t.data_in, t.data_out, "
         "t.cycles_mean, t.micro_batch, t.phase "
         "FROM trace AS t, programs AS n WHERE t.id < 1000", "UPDATE programs SET name = name")
    connection = sqlite3.connect(folder / "profile.pop")
    root, = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trace'").fetchone()
    connection.close()
    path = folder / "profile.pop"
    whole = path.read_bytes()
    start = 1024 * (root - 1)
    assert whole[start] == 5, "an inner page"
    count, = struct.unpack_from(">H", whole, start + 3)
    for child in (root, struct.unpack_from(">I", whole, start + 8)[0]):
        data = bytearray(whole)
        struct.pack_into(">I", data, start + 8, child)
        for i in range(count):
            cell, = struct.unpack_from(">H", whole, start + 12 + 2 * i)
            struct.pack_into(">I", data, start + cell, child)
        path.write_bytes(data)
        check(tool, folder)


def test_something_else_in_its_place(tool, tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    assert tool.fails("trace", folder) == f"there is no profile.pop in {folder}"
    assert tool.fails("trace", "no.pvti") == "there is no timeline no.pvti"
    for make in (os.mkfifo, os.mkdir, lambda path: open(path, "wb").close(),
                 lambda path: sqlite3.connect(path).execute("CREATE TABLE meta(a)")):
        path = folder / "profile.pop"
        make(path)
        assert check(tool, folder, refused=True)
        assert str(path) in tool.fails("trace", folder)
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def test_debug_information_and_variables(copy):
    for name, contents in [
            ("debug.cbor", b"\xa1\x61a\xbb" + b"\xff" * 8), ("debug.cbor", b"\xa1" * 2000),
            ("debug.cbor", b"\x7b" + b"\xff" * 8), ("debug.cbor", b"\xa1\xa0\x01"),
            ("debug.cbor", b"\x01"), ("vars.capnp", b""), ("vars.capnp", b"\0" * 7),
            ("vars.capnp", struct.pack("<II", 0, 3) + b"\xff" * 24),
            ("vars.capnp", struct.pack("<IIQ", 0, 1 << 31, 0))]:
        folder = copy()
        (folder / name).write_bytes(contents)
        report = pva.openReport(str(folder), str(folder / "debug.cbor"))
        with pytest.raises(sound.DamagedError, match=name):
            _ = report.debugContexts if name == "debug.cbor" else list(
                report.compilation.loweredVariables.allBriefVars)
