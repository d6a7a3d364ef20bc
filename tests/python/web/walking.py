"""What tests do in every view: reach each control by keys, ask axe-core, compare all numbers."""

import collections
import contextlib
import json
import sqlite3

import pytest

import page_wants
from analyser import ROOT, VIEWS, tremula

_AXE = ROOT / "build/web/node_modules/axe-core/axe.min.js"

# The views with something chosen, so that all of their tables are there.
LINKS = ["v=summary", "v=insights", "v=memory&tiles=0,5", "v=tiles&tiles=0,5",
         "v=liveness&steps=3,9&step=9", "v=program&depth=20&step={step}", "v=operations&op={op}",
         "v=graph", "v=trace", "v=trace&mode=sandwich", "v=compare", "v=source", "v=sql", "v=files"]
# Other tests: frames in test_page_numbers.py, range-kinds (their sum) there too; test_host.py.
ELSEWHERE = {"frames", "range-kinds", "host-table"}
# Texts, and what `tremula report` gives by operation only.
DERIVED = {"trace-table": {"kind"}, "lines": {"temporary"}, "files": {"absence"}}
# A column that would only repeat the variable's name.
HIDDEN = {"insights-always-live": {"op"}, "insights-alive-at-the-peak": {"op"}}
# Tables that a profile may lack.
OPTIONAL = {"advice", "runs", "stages", "lines", "halves", "touched", "vertices", "op-variables",
            "streams"}


def plain(value):
    """Numbers to ten digits; one text for what is not there."""
    if value in (None, "", "null", "NaN"):
        return ""
    try:
        return f"{float(value):.10g}"
    except ValueError:
        return value


def check(table, rows, want, folder):
    columns, wanted, how = want
    shown = set(rows[0]) - DERIVED.get(table, set())
    hidden = set(columns) - shown
    assert shown <= set(columns) and hidden <= HIDDEN.get(table, set()), (folder, table)
    wanted = [[value for name, value in zip(columns, row, strict=True) if name not in hidden]
              for row in wanted]
    columns = [name for name in columns if name not in hidden]
    found = collections.Counter(tuple(plain(row[name]) for name in columns) for row in rows)
    every = collections.Counter(tuple(map(plain, row)) for row in wanted)
    if how == "all":
        assert found == every, table
        return
    assert not found - every, table
    at = columns.index(how)
    assert sorted((float(row[at]) for row in found.elements()), reverse=True) == \
        sorted((float(row[at]) for row in every.elements()), reverse=True)[:len(rows)], table
    assert len(rows) == min(10 if table != "range-operations" else 20, every.total()), table


def figures(one, report, folder):
    """{key: number} that the page shows beside its tables."""
    found = {key: int(report[key]) for key in ("fits", "cycles", "worst_tile_bytes", "memory_bytes",
                                               "num_ipus", "num_replicas", "bytes_per_tile")}
    found |= {key: value for key, value in one.execute("SELECT key, value FROM totals")
              if key not in found}
    found |= {f"fullest.{row['tile']}": row["bytes"] for row in report["fullest_tiles"]}
    found |= {f"map.{tile}": total for tile, total in one.execute(
        "SELECT tile, total_including_gaps FROM memory_by_tile WHERE tile IN (0, 5)")}
    found["half_bytes"] = sum(size for _, size in page_wants.halves(one, folder)) / 2
    ranges = one.execute(
        "WITH r AS (SELECT *, type = 'OnTileExecute' AS computes FROM trace WHERE id > 1) SELECT "
        "sum(cycles) - sum(cycles_overlapped), sum(cycles_overlapped), sum(sync_cycles), "
        "sum(data_in), sum(data_out), sum(computes * cycles_mean) / sum(computes * cycles), "
        "1.0 * sum(computes * (cycles - sync_cycles)) / sum(cycles) FROM r").fetchone()
    names = "cycles overlapped sync in out balance compute".split()
    return found | {f"range.{name}": value for name, value in zip(names, ranges, strict=True)}


def check_layers(page, one):
    """The layers of Insights are sums over the variables of the tables beside them."""
    layers = dict(one.execute("SELECT coalesce(nullif(op_name, ''), hlo_name), layer FROM sources"))
    wanted = collections.Counter()
    for table in ("insights-always-live", "insights-alive-at-the-peak"):
        if page.page.locator(f"#{table}").count() == 0:
            continue
        for row in page.table(table):
            op = row.get("op", row["name"] if row["name"] in layers else "")
            wanted[layers.get(op) or op or "(none)"] += float(row["total"])
    shown = {row["name"]: float(row["bytes"]) for row in page.table("insights-layers")}
    assert shown.items() <= wanted.items()
    assert sorted(shown.values()) == sorted(wanted.values())[-len(shown):]


def compare_numbers(page, folder):
    """Every table and figure of every view has the numbers of `tremula report --json` or of SQL."""
    report = json.loads(tremula("report", folder, "--json").stdout)
    seen = set()
    one = sqlite3.connect(f"file:{folder}/profile.pop?mode=ro", uri=True)
    with contextlib.closing(one):
        step, = one.execute("SELECT id FROM programs WHERE compute_set >= 0 AND source >= 0 "
                            "ORDER BY cycles DESC LIMIT 1").fetchone()
        op = report["ops"][0]["op"]
        wanted = page_wants.wants(one, report, folder, step, op)
        numbers = figures(one, report, folder)
        for link in LINKS:
            page.go(link.format(step=step, op=op))
            for button in page.page.get_by_role("button", name="As table").all():
                button.click()
            for table in page.page.locator("main table[id]").evaluate_all("a => a.map(t => t.id)"):
                if table in ELSEWHERE:
                    continue
                rows = page.table(table)
                if table == "files":
                    rows = [row for row in rows if (folder / row["name"]).exists()]
                if table == "insights-layers":
                    check_layers(page, one)
                elif rows:
                    check(table, rows, wanted[table], folder)
                seen.add(table)
            for key, value in page.page.locator("main [data-key][data-value]").evaluate_all(
                    "all => all.map((one) => [one.dataset.key, one.dataset.value])"):
                assert float(value) == pytest.approx(numbers[key], rel=1e-12), key
    assert set(wanted) - seen <= OPTIONAL
    assert {link.split("&")[0][2:] for link in LINKS} == set(VIEWS)


def _totals(one, report):
    """Rows of the table of totals of one of two reports."""
    totals = dict(one.execute("SELECT key, value FROM totals"))
    return [("cycles of a run", report["cycles"]), *report["cycles_by_part"].items(),
            ("bytes of all tiles", report["memory_bytes"]),
            ("bytes of the fullest tile", report["worst_tile_bytes"]),
            ("programs", int(totals["num_steps"]))]


def _options(one, folder):
    """What two reports may differ in, by the name that the page shows."""
    found = {f"target: {key}": value for key, value in one.execute("SELECT * FROM target")}
    framework = folder / "framework.json"
    if framework.exists():
        options = json.loads(framework.read_text(encoding="utf-8")).get("options") or {}
        found |= {f"compiler: {key}": value for key, value in options.items()}
    return found | dict(one.execute("SELECT name, value FROM engine_options"))


def _overlay(one):
    """Live bytes at each thousandth of the program."""
    steps, = one.execute("SELECT count(*) FROM programs").fetchone()
    changes = [(row[0], row[3]) for row in page_wants.liveness(one)]
    found, at = [], 0
    for k in range(1000):
        while at + 1 < len(changes) and changes[at + 1][0] <= k / 1000 * steps:
            at += 1
        found.append(changes[at][1])
    return found


def _change(a, b):
    if a is None or b is None:
        return "new" if a is None else "gone"
    if a == 0:
        return "new" if b else "0.0 %"
    return f"{'+' if b > a else ''}{100 * (b / a - 1):.1f} %"


def compare_two(page, folders):
    """Every table of the view Compare of two reports, against `tremula report A B --json`, the JSON
    of each, and SQL. Change in per cent may differ in its last digit, where a half is rounded."""
    report = json.loads(tremula("report", *folders, "--json").stdout)
    each = [json.loads(tremula("report", folder, "--json").stdout) for folder in folders]
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(contextlib.closing(
            sqlite3.connect(f"file:{folder}/profile.pop?mode=ro", uri=True))) for folder in folders]
        page.go("v=compare")
        for button in page.page.get_by_role("button", name="As table").all():
            button.click()
        shown = {table: page.table(table) for table in page.page.locator(
            "main table[id]").evaluate_all("a => a.map(t => t.id)")}
        # The two reports, and the options in which they differ.
        for row, side, one, folder in zip(shown.pop("sides"), "ab", both, folders, strict=True):
            assert (row["name"], float(row["cycles"])) == (folder.name, report[side]["cycles"])
            assert row["fits"] == ("fits" if report[side]["fits"] else "out of memory")
            assert (row["module"],) == one.execute(
                "SELECT value FROM meta WHERE key = 'module'").fetchone()
        options = [_options(*pair) for pair in zip(both, folders, strict=True)]
        differ = {key for key in options[0] | options[1]
                  if options[0].get(key) != options[1].get(key)}
        assert {row["name"] for row in shown.pop("differences", [])} == differ
        # Totals.
        wanted = zip(*(_totals(*pair) for pair in zip(both, each, strict=True)), strict=True)
        for row, ((name, a), (_, b)) in zip(shown.pop("totals"), wanted, strict=True):
            assert (row["name"], *(float(row[key]) for key in ("a", "b", "difference"))) == \
                (name, a, b, b - a)
            check_change(row["change"], _change(a, b))
        # Operations: what is matched by scope and type has two names.
        ops = [{one["op"]: one for one in side["ops"]} for side in each]
        differing = {one["op"]: one for one in report["ops"]}
        seen, equal = [], 0
        for row in shown.pop("pairs"):
            names = row["name"].split(" → ") if row["how"] == "scope and type" else [row["name"]]
            seen += names
            a, b = ops[0].get(names[0]), ops[1].get(names[-1])
            equal += names[0] not in differing
            if len(names) == 1 and names[0] in differing:
                assert [one and one["cycles"] for one in (a, b)] == [
                    differing[names[0]][side] and differing[names[0]][side]["cycles"]
                    for side in "ab"]
            cycles = [None if one is None else one["cycles"] for one in (a, b)]
            assert [plain(row["a"]), plain(row["b"])] == list(map(plain, cycles)), names
            assert float(row["difference"]) == (cycles[1] or 0) - (cycles[0] or 0)
            assert [plain(row["temporary_a"]), plain(row["temporary_b"])] == \
                [plain(one and one["temporary_bytes"]) for one in (a, b)], names
            check_change(row["change"], _change(*cycles))
        assert sorted(seen) == sorted(ops[0] | ops[1])
        assert page.value("equal_ops") == report["equal_ops"] == equal
        # Both in one chart.
        memory = [[row[0] for row in one.execute(
            "SELECT total_including_gaps FROM memory_by_tile ORDER BY tile")] for one in both]
        live = [_overlay(one) for one in both]
        for name, (a, b) in (("memory", memory), ("liveness", live)):
            rows = shown.pop(f"overlay-{name}-table")
            assert [float(row["s0"]) for row in rows][:len(a)] == a, name
            assert [float(row["s1"]) for row in rows][:len(b)] == b, name
            assert len(rows) == max(len(a), len(b))
    assert not shown, sorted(shown)


def check_change(shown, wanted):
    if wanted.endswith("%"):
        assert abs(float(shown[:-2]) - float(wanted[:-2])) < 0.11, (shown, wanted)
    else:
        assert shown == wanted


def reach_every_control(page):
    """The Tab key goes to each control of the view that is shown."""
    wanted = page.page.locator("main").evaluate("""main => [...main.querySelectorAll(
        "button, a[href], select, input, textarea, canvas[tabindex], [tabindex='0']")].filter(
        (one) => one.tabIndex >= 0 && one.checkVisibility() &&
            !one.closest("details:not([open]) > :not(summary)")).length""")
    page.page.locator("main").focus()
    reached = set()
    for _ in range(wanted + 3):
        page.page.keyboard.press("Tab")
        reached.add(page.page.evaluate("""() => {
            const main = document.querySelector("main"), one = document.activeElement;
            return main.contains(one) ? [...main.querySelectorAll("*")].indexOf(one) : -1;
        }"""))
    assert len(reached - {-1}) >= wanted, (page.page.url, wanted, len(reached))


def find_nothing_serious(page, links, rules):
    """axe-core finds nothing serious behind the links of a page that is open."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed (make test installs it)")
    page.page.evaluate(_AXE.read_text(encoding="utf-8") + "; 0")
    found = []
    for link in links:
        page.go(link)
        result = page.page.evaluate(
            "rules => axe.run(document, {resultTypes: ['violations'], ...rules})", rules)
        found += [(link, one["id"], one["nodes"][0]["html"][:160],
                   one["nodes"][0].get("failureSummary", "")[:300])
                  for one in result["violations"] if one["impact"] in ("serious", "critical")]
    assert not found, json.dumps(found, indent=1)
