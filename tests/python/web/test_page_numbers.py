"""Numbers of views as `tremula report --json` and SQL by Python's sqlite3 have them: what
test_page_walk.py does not see, which walks over the tables of every view."""

import collections
import contextlib
import json
import re
import sqlite3

import pytest

from analyser import tremula


def report(folder, *more):
    return json.loads(tremula("report", folder, *more, "--json").stdout)


@contextlib.contextmanager
def database(folder):
    with contextlib.closing(sqlite3.connect(f"file:{folder}/profile.pop?mode=ro", uri=True)) as one:
        yield one


def totals(folder):
    with database(folder) as one:
        return dict(one.execute("SELECT key, value FROM totals"))


def number(text):
    return None if text in ("", "null") else float(text)


# What the page adds up in arrays, by SQL: the group of each layer, sums over its programs, and over
# the compute sets and variables of its instructions.
_LAYERS = {
    "hlo": "coalesce(s.hlo_name, p.name)", "opcode": "coalesce(s.opcode, p.type)",
    "type": "coalesce(nullif(s.op_type, ''), s.opcode, p.type)",
    "source": "CASE WHEN s.file IS NULL OR s.file = '' THEN '' ELSE s.file || ':' || s.line END"}
_SUMS = ("cycles", "wasted", "exchange", "flops", "alwaysLive", "weights")
_LAYER = (
    "SELECT {} AS name, CAST(sum(cycles * executions) AS INTEGER), CAST(sum((type = "
    "'OnTileExecute') * (cycles - cycles_mean) * executions) AS INTEGER), CAST(sum((type = "
    "'DoExchange') * cycles * executions) AS INTEGER), CAST(sum(flops * executions) AS INTEGER) "
    "FROM programs AS p LEFT JOIN sources AS s ON s.id = p.source WHERE end = p.id + 1 GROUP BY 1")
_OWN = ("SELECT {} AS name, sum(v.always_live * total_bytes), sum(is_weight * total_bytes) FROM "
        "variables AS v JOIN sources AS s ON s.id = v.source GROUP BY 1")


@pytest.mark.parametrize("name", ["plain", "pipeline"])
def test_operations_sum_to_the_report_by_every_layer(new_page, html, profiles, name):
    page = new_page().open(f"{html(name)}#v=operations", "operations")
    found = {row["name"]: (number(row["cycles"]), number(row["flops"]), number(row["temporary"]))
             for row in page.table("operations")}
    assert found == {one["op"]: (one["cycles"], one["flops"], one["temporary_bytes"])
                     for one in report(profiles[name])["ops"]}
    cycles = sum(one[0] for one in found.values())
    page.go("v=operations&layer=scope")
    assert sum(number(row["cycles"]) for row in page.table("operations")) == cycles
    for layer, group in _LAYERS.items():
        page.go(f"v=operations&layer={layer}")
        with database(profiles[name]) as one:
            own = {key: sums for key, *sums in one.execute(
                _OWN.format(re.sub(r"p\.\w+", "NULL", group)))}
            wanted = [(*row, *own.get(row[0], (0, 0))) for row in one.execute(_LAYER.format(group))]
        rows = page.table("operations")
        assert sorted((row["name"], *(number(row[key]) for key in _SUMS)) for row in rows) == \
            sorted(wanted), layer
    assert not page.faults


@pytest.mark.parametrize("name", ["large", "pipeline"])
def test_sums_of_memory(new_page, html, profiles, name):
    """The variables of a tile that are alive when it is fullest have its total."""
    page = new_page().open(f"{html(name)}#v=memory&tiles=5", "memory")
    with database(profiles[name]) as one:
        total, = one.execute("SELECT total FROM memory_by_tile WHERE tile = 5").fetchone()
    alive = [row for row in page.table("tile-variables") if row["peak"] == "alive"]
    assert sum(number(row["t5"]) for row in alive) == total
    assert "this profile is damaged" not in page.main()
    assert not page.faults


@pytest.mark.parametrize("name", ["plain", "pipeline"])
def test_liveness_has_the_bytes_of_every_step_and_what_is_alive(new_page, html, profiles, name):
    page = new_page().open(f"{html(name)}#v=liveness&of=fullest", "liveness")
    own = totals(profiles[name])
    with database(profiles[name]) as one:
        always, most = one.execute("SELECT always_live, not_always_live FROM memory_by_tile "
                                   "WHERE tile = ?", (own["worst_tile"],)).fetchone()
        alive = one.execute("SELECT sum(total_bytes) FROM variables WHERE always_live OR "
                            "(first_step <= 3 AND 3 < end_step)").fetchone()[0]
        changes = one.execute("SELECT program, sum(not_always_live) FROM liveness WHERE ipu = 0 "
                              "GROUP BY program ORDER BY program").fetchall()
    page.page.get_by_role("button", name="As table").first.click()
    rows = page.table("liveness-table")
    assert max(number(row["not_always_live"]) for row in rows) == most
    assert {number(row["live"]) - number(row["not_always_live"]) for row in rows} == {always}
    page.go("v=liveness&step=3")
    assert sum(number(row["s3"]) for row in page.table("alive")) == alive
    page.go("v=liveness&ipu=0")
    page.page.get_by_role("button", name="As table").first.click()
    assert [(number(row["program"]), number(row["not_always_live"]))
            for row in page.table("liveness-table")] == changes
    assert not page.faults


@pytest.mark.parametrize("name", ["plain", "loop", "pipeline"])
def test_the_program_and_the_trace_have_the_profiles_cycles(new_page, html, profiles, name):
    page = new_page().open(f"{html(name)}#v=program&depth=20", "program")
    with database(profiles[name]) as one:
        programs = one.execute("SELECT name, cycles, live_bytes FROM programs ORDER BY id"
                               ).fetchall()
        trace = one.execute("SELECT sum(cycles), sum(cycles_overlapped), sum(sync_cycles), "
                            "sum(data_in), sum(data_out) FROM trace WHERE id > 1").fetchone()
        stages = one.execute("SELECT stage, sum(cycles) FROM trace WHERE stage >= 0 AND id > 1 "
                             "GROUP BY stage").fetchall()
    assert [(row["name"], number(row["cycles"]), number(row["live_bytes"]))
            for row in page.table("programs")] == programs
    page.go("v=trace")
    assert page.value("range.cycles") == trace[0] - trace[1] == programs[0][1]
    assert [page.value(f"range.{key}") for key in ("overlapped", "sync", "in", "out")] == \
        list(trace[1:])
    kinds = sum(number(row["cycles"]) for row in page.table("range-kinds"))
    assert kinds == pytest.approx(trace[0])
    if stages:
        assert stages == [(number(row["stage"]), number(row["busy"]))
                          for row in page.table("stages")]
    assert not page.faults


def test_runs_that_count_their_loops_otherwise(new_page, html, profiles):
    """Each run has the rows of its own count, and no other run's beside them."""
    with database(profiles["counts"]) as one:
        runs = one.execute("SELECT id, cycles - wait_cycles - load_cycles, first_row, end_row "
                           "FROM runs").fetchall()
        rows = {run: one.execute("SELECT count(*), sum(cycles), sum(sync_cycles) FROM trace WHERE "
                                 "id > ? AND id < ?", (first + 1, end)).fetchone()
                for run, _, first, end in runs}
    assert runs[0][1] < runs[1][1] and runs[0][3] == runs[1][2]
    page = new_page().open(html("counts"))
    for run, cycles, *_ in runs:
        page.go(f"v=trace&run={run}")
        assert page.value("range.cycles") == rows[run][1] == cycles
        assert page.value("range.sync") == rows[run][2]
        label = page.page.locator("#trace-chart").get_attribute("aria-label")
        assert f" {rows[run][0]} rows over " in f" {label}", label
    assert not page.faults



@pytest.mark.parametrize("name", ["plain", "loop", "pipeline"])
def test_a_sandwich_has_the_cycles_of_each_name_and_its_parts(new_page, html, profiles, name):
    page = new_page().open(f"{html(name)}#v=trace&mode=sandwich", "trace")
    with database(profiles[name]) as one:
        rows = one.execute(
            "SELECT programs.name, trace.cycles - cycles_overlapped FROM trace JOIN programs ON "
            "programs.id = program WHERE trace.id > 1 AND trace.cycles > cycles_overlapped"
        ).fetchall()
    own, whole, count = collections.Counter(), collections.Counter(), collections.Counter()
    for text, cycles in rows:
        parts = [part for part in text.split("/") if part]
        own[parts[-1]] += cycles
        for part in set(parts):
            whole[part] += cycles
            count[part] += 1
    found = {row["name"]: tuple(number(row[key]) for key in ("self", "total", "rows"))
             for row in page.table("frames")}
    assert found == {part: (own[part], whole[part], count[part]) for part in whole}
    # The chosen name as a chart: as wide as all of its cycles.
    most = max(whole, key=lambda part: (whole[part] > own[part], whole[part]))
    page.go(f"v=trace&mode=sandwich&frame={most}")
    summary = page.page.locator("#trace-chart").get_attribute("aria-label")
    assert f"over {whole[most]:,} cycles".replace(",", "\u202f") in summary
    assert page.page.locator(f'#frames tr[data-key="{most}"]').get_attribute(
        "aria-selected") == "true"
    assert not page.faults


def test_insights_say_that_a_program_does_not_fit(new_page, html):
    page = new_page().open(f"{html('large')}#v=insights", "insights")
    assert "does not fit" in page.main()
    assert not page.faults


def test_compare_has_both_reports_cycles_and_bytes_by_operation(new_page, html, profiles):
    page = new_page().open(f"{html('plain', 'changed')}#v=compare", "compare")
    wanted = report(profiles["plain"], profiles["changed"])
    rows = {row["name"]: row for row in page.table("pairs")}
    assert page.value("equal_ops") == wanted["equal_ops"]
    for one in wanted["ops"]:
        row = rows[one["op"]]
        for side in "ab":
            cycles = None if one[side] is None else one[side]["cycles"]
            assert number(row[side]) == cycles, (one["op"], side)
    assert rows["net/wide/Sin"]["change"] == "new"
    shown = {row["name"]: (number(row["a"]), number(row["b"])) for row in page.table("totals")}
    for key, name in (("cycles", "cycles of a run"), ("memory_bytes", "bytes of all tiles"),
                      ("worst_tile_bytes", "bytes of the fullest tile")):
        assert shown[name] == (wanted["a"][key], wanted["b"][key])
    parts = [report(profiles[name])["cycles_by_part"] for name in ("plain", "changed")]
    assert {name: shown[name] for name in parts[0]} == \
        {name: (parts[0][name], parts[1][name]) for name in parts[0]}
    steps = [totals(profiles[name])["num_steps"] for name in ("plain", "changed")]
    assert shown["programs"] == tuple(steps)
    assert not page.faults


def test_waterfalls_end_at_the_other_report(new_page, html, profiles):
    """Also where IPUs work at the same time: their operations are then more than the run."""
    page = new_page().open(f"{html('run', 'pipeline')}#v=compare", "compare")
    for name in ("Cycles by part", "Cycles by operation"):
        bars = page.page.get_by_role("group", name=name).locator("> span").all_inner_texts()
        assert bars[-2] == "B"
        assert int(re.sub(r"\D", "", bars[-1])) == report(profiles["pipeline"])["cycles"]


def test_source_lines_have_their_cycles_and_sql_only_reads(new_page, html, profiles):
    page = new_page().open(f"{html('plain')}#v=source", "source")
    with database(profiles["plain"]) as one:
        lines = dict(one.execute(
            "SELECT file || ':' || line, sum(cycles * executions) FROM programs JOIN sources ON "
            "sources.id = source WHERE file <> '' AND end = programs.id + 1 GROUP BY 1"))
        types = one.execute("SELECT type, count(*), sum(cycles * executions) AS c FROM programs "
                            "WHERE end = id + 1 GROUP BY type ORDER BY c DESC").fetchall()
    assert {row["name"]: number(row["cycles"]) for row in page.table("lines")} == lines
    page.go("v=sql")
    assert [(row["c0"], number(row["c1"]), number(row["c2"]))
            for row in page.table("result")] == types
    page.go("v=sql&q=DELETE FROM meta")
    assert "Only statements that read" in page.main()
    assert not page.faults


def test_sql_of_two_reports(new_page, html, profiles):
    page = new_page().open(f"{html('plain', 'changed')}#v=sql", "sql")
    sql = ("SELECT name, a.cycles, o.cycles FROM {main}.compute_sets AS a JOIN "
           "other.compute_sets AS o USING (name) ORDER BY name")

    def shown():
        return [(row["c0"], number(row["c1"]), number(row["c2"])) for row in page.table("result")]
    with database(profiles["plain"]) as one:
        one.execute("ATTACH ? AS other", (f"file:{profiles['changed']}/profile.pop?mode=ro",))
        wanted = one.execute(sql.format(main="main")).fetchall()
        steps = one.execute("SELECT a.value, b.value FROM main.totals AS a JOIN other.totals AS b "
                            "USING (key) WHERE key = 'num_steps'").fetchone()
    assert len(wanted) > 3 and steps[0] != steps[1]
    page.go("v=sql&q=" + sql.format(main="main"))
    assert shown() == wanted
    totals_of = "SELECT 1, {}.value FROM {}.totals WHERE key = 'num_steps'"
    for report_shown, schema, value in (("", "main", steps[0]), ("", "other", steps[1]),
                                        ("&r=b", "main", steps[1]), ("&r=b", "other", steps[0])):
        page.go("v=sql&q=" + totals_of.format("totals", schema) + report_shown)
        assert number(page.table("result")[0]["c1"]) == value
    page.go("v=sql&q=WITH t AS (SELECT 1) DELETE FROM other.meta")
    assert "readonly" in page.main()
    assert not page.faults


def test_the_graph_names_instructions_and_files_show_their_text(new_page, html):
    page = new_page().open(f"{html('plain')}#v=graph&open=net/|net/wide/&inputs=1", "graph")
    labels = page.page.locator(".graphbox g[role=button]").evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label'))")
    assert any("tanh f32[64,512]" in label for label in labels)
    assert any(re.search(r"narrow 1 instruction\b", label) for label in labels)
    page.go("v=files&file=archive.a&tiles=5")
    assert "alwaysLive" in page.main()
    page.go("v=files&file=serialized_graph.hlo")
    assert "HloModule plain" in page.main()
    page.go("v=files&file=debug.cbor")
    assert '"stream"' in page.main()
    assert not page.faults
