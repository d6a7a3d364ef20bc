"""What docs/analyser.md promises of the graph, tiles over time, pipelines, comparing and saving."""

import collections
import contextlib
import csv
import io
import json
import re
import shutil
import sqlite3
import struct
import subprocess

import pytest

from analyser import ROOT, tremula


@contextlib.contextmanager
def database(folder):
    with contextlib.closing(sqlite3.connect(f"file:{folder}/profile.pop?mode=ro", uri=True)) as one:
        yield one


def number(text):
    return None if text in ("", "NaN", "null", None) else float(text)


def saved(page, press):
    """The bytes and the name of the file that a press saves."""
    with page.page.expect_download() as saving:
        press()
    return saving.value.path().read_bytes(), saving.value.suggested_filename


# ---- The graph -----------------------------------------------------------------------------------

def boxes(page):
    return page.page.locator(".graphbox g[role=button]").evaluate_all(
        "all => all.map((one) => [one.dataset.focus.slice(4), one.getAttribute('aria-label')])")


def test_graph_colours_stages_and_folds(new_page, html, profiles):
    page = new_page().open(f"{html('pipeline')}#v=graph", "graph")
    framework = json.loads((profiles["pipeline"] / "framework.json").read_text(encoding="utf-8"))
    body = max(framework["computations"], key=lambda one: len(one["instructions"]))
    page.go(f"v=graph&computation={body['name']}&open=(dot)/&inputs=1&metric=flops")
    with database(profiles["pipeline"]) as one:
        flops = dict(one.execute(
            "SELECT hlo_name, CAST(sum(flops * executions) AS INTEGER) FROM programs JOIN sources "
            "ON sources.id = source WHERE end = programs.id + 1 GROUP BY 1"))
        stages = collections.defaultdict(set)
        for name, stage in one.execute("SELECT hlo_name, stage FROM programs JOIN sources ON "
                                       "sources.id = source WHERE stage >= 0"):
            stages[name].add(stage)
    dots = [i["name"] for i in body["instructions"] if i["opcode"] == "dot"]
    shown = {key.split("/")[-1]: label for key, label in boxes(page) if key.startswith("(dot)/")}
    assert set(dots) <= set(shown)
    for name in dots:
        assert shown[name].endswith(f"flops {flops[name]}"), shown[name]
    page.go(f"v=graph&computation={body['name']}&open=(dot)/&box=(dot)/{dots[0]}")
    stage, = stages[dots[0]]
    assert f"stage {stage}" in page.main()
    assert not page.faults


def test_graph_opens_finds_and_says_what_is_missing(new_page, html):
    page = new_page().open(f"{html('plain')}#v=graph", "graph")
    assert [key for key, _ in boxes(page)] == ["net/"]
    page.page.locator(".graphbox g").first.focus()
    page.page.keyboard.press("Enter")
    page.until("document.querySelectorAll('.graphbox g').length === 3")
    field = page.page.get_by_label("Find in the graph")
    field.fill("tanh")
    field.press("Enter")
    page.page.wait_for_selector(".graphbox [data-chosen]")
    chosen = page.page.locator(".graphbox [data-chosen]").get_attribute("aria-label")
    assert "Tanh" in chosen and "tanh f32[64,512]" in chosen
    assert "does not say which computations" not in page.main()  # there is one
    shapes = page.page.locator(".graphbox text.edge").all_text_contents()
    assert "f32[64,512]" in shapes
    picture, name = saved(page, lambda: page.page.get_by_role("button", name="Save SVG").click())
    assert name == "graph.svg" and picture.startswith(b"<svg") and b"Tanh" in picture
    assert not page.faults


def test_a_graph_without_calls_and_names(new_page, html, profiles, tmp_path):
    """Files of old versions do not say what a loop calls. Without names of ops, the computation
    with most instructions is shown."""
    assert "does not say which computations" not in new_page().open(
        f"{html('loop')}#v=graph", "graph").main()
    folder = shutil.copytree(profiles["loop"], tmp_path / "old")
    framework = json.loads((folder / "framework.json").read_text())
    for computation in framework["computations"]:
        for one in computation["instructions"]:
            one.pop("calls", None)
            one["opName"] = None
    (folder / "framework.json").write_text(json.dumps(framework))
    tremula("report", folder, "--html", tmp_path / "old.html")
    page = new_page().open(f"{(tmp_path / 'old.html').as_uri()}#v=graph", "graph")
    assert "does not say which computations an instruction calls" in page.main()
    most = max(framework["computations"], key=lambda one: len(one["instructions"]))
    assert page.page.get_by_label("Computation").input_value() == most["name"]
    assert not page.faults


_ALIKE = """
import {{ graph }} from "{web}/src/data/graph.js";
const one = (name, opName) => (
  {{ name, opName, opcode: "add", operands: [], type: "f32", dimensions: [] }});
const sums = (count) =>
  Array.from({{ length: count }}, (_, i) => one(`a${{i}}`, i ? `Sum_${{i}}` : "Sum"));
const ids = (instructions, open = []) => {{
  const value = {{ computations: [{{ name: "c", instructions }}] }};
  return graph({{ framework: () => ({{ value }}) }}, "", open, true, true).boxes.map((b) => b.id);
}};
const folded = ids([...sums(6), one("x", "net/x")]);
const names = ["net/x", "gradients/net/x_grad", "gradient_tape/net/x"];
const gradients = ids(names.map((name) => one(name, name)));
const opened = ids(sums(6), ["(Sum)/"]).length;
console.log(JSON.stringify([folded, opened, ids(sums(5)), gradients]));
"""


def test_many_of_one_name_are_one_box(tmp_path):
    """Ops without a scope that differ in their number have a scope together, as a hundred sums of
    gradients would hide the layers."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "alike.mjs").write_text(_ALIKE.format(web=ROOT / "web"), encoding="utf-8")
    done = subprocess.run(["node", tmp_path / "alike.mjs"], text=True, capture_output=True,
                          timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    folded, opened, few, gradients = json.loads(done.stdout)
    assert folded == ["(Sum)/", "net/"] and opened == 7
    assert few == ["a0", "a1", "a2", "a3", "a4"] and gradients == ["net/"]


def test_gradients_fold_to_their_op(new_page, html):
    folded = new_page().open(f"{html('gradients')}#v=graph&open=net/", "graph")
    assert [key for key, _ in boxes(folded)].count("net/layer/") == 1
    assert not [key for key, _ in boxes(folded) if key.startswith("gradients")]
    folded.go("v=graph&fold=0")
    assert "gradients/" in [key for key, _ in boxes(folded)]
    assert not folded.faults


# ---- Tiles over time, pipelines ------------------------------------------------------------------

_PIXELS = """([x, shares]) => {
    const canvas = document.getElementById("bsp-chart"), g = canvas.getContext("2d");
    return shares.map((y) => [...g.getImageData(Math.round(x * canvas.width),
        Math.floor(y * canvas.height), 1, 1).data].slice(0, 3));
}"""


def test_tiles_over_time(new_page, html, profiles):
    """A row of pixels for a tile: bright where it works, dark where it waits for the others."""
    with database(profiles["plain"]) as one:
        row, begin, cycles, distribution = one.execute(
            "SELECT t.id, t.cycles_base, t.cycles, p.tile_cycles FROM trace AS t JOIN "
            "programs AS p ON p.id = t.program WHERE t.id > 1 AND p.tile_cycles >= 0 AND "
            "t.active_tiles > 0 AND "
            "(SELECT count(*) FROM tile_cycles AS c WHERE c.distribution = p.tile_cycles) > 1 "
            "ORDER BY t.cycles DESC LIMIT 1").fetchone()
        runs = one.execute("SELECT first_tile, num_tiles, cycles FROM tile_cycles WHERE "
                           "distribution = ? ORDER BY first_tile", (distribution,)).fetchall()
        offset, = one.execute("SELECT coalesce(min(wait_cycles + load_cycles), 0) FROM runs "
                              "WHERE id = 0").fetchone()
        tiles, = one.execute("SELECT sum(num_tiles) FROM ipus").fetchone()
    low, high = int(begin + offset), int(begin + offset + cycles)
    page = new_page().open(f"{html('plain')}#v=trace&z={low}-{high}&row={row}", "trace")
    page.until("document.getElementById('bsp-chart').dataset.frame")
    busiest = max(runs, key=lambda run: run[2] * (run[1] > 30))
    idle = [tile for tile in range(tiles)
            if not any(first <= tile < first + count for first, count, _ in runs)]
    middle = (busiest[0] + busiest[1] / 2) / tiles
    half = 0.5 * busiest[2] / cycles
    shown, = page.page.evaluate(_PIXELS, [half, [middle]])
    assert shown == [253, 231, 37], "a tile that works is bright"
    late = (1 + busiest[2] / cycles) / 2
    if late < 0.995:
        assert page.page.evaluate(_PIXELS, [late, [middle]]) == [[68, 1, 84]]
    if len(idle) > 30:
        at = (idle[len(idle) // 2] + 0.5) / tiles
        assert page.page.evaluate(_PIXELS, [half, [at]]) == [[68, 1, 84]]
    page.page.locator("#bsp-chart").focus()
    page.page.keyboard.press("ArrowRight")
    assert "tiles active" in page.page.locator("#bsp-chart ~ .tip").inner_text()
    assert not page.faults


def test_a_pipeline_as_a_grid(new_page, html, profiles):
    page = new_page().open(f"{html('pipeline')}#v=trace", "trace")
    with database(profiles["pipeline"]) as one:
        rows = one.execute("SELECT stage, micro_batch, coalesce(phase, ''), cycles, cycles_base "
                           "FROM trace WHERE id > 1 AND stage >= 0 AND cycles > 0").fetchall()
    cells, busy = collections.Counter(), collections.Counter()
    for stage, batch, phase, cycles, _ in rows:
        busy[stage] += cycles
        if batch >= 0:
            cells[phase, stage, batch] += cycles
    shown = page.page.evaluate("""() => [...document.querySelectorAll("main table[aria-label]")]
        .filter((one) => /mini-batch/.test(one.getAttribute("aria-label")))
        .map((one) => [one.getAttribute("aria-label"), [...one.querySelectorAll("tbody tr")].map(
            (row) => [...row.querySelectorAll("td.number")].map((cell) => cell.dataset.value))])""")
    assert shown
    found = sorted(float(value) for _, grid in shown for line in grid for value in line if value)
    assert found == sorted(cells.values())
    span = max(begin + cycles for *_, cycles, begin in rows) - min(begin for *_, begin in rows)
    stages = page.table("stages")
    assert [(row["stage"], row["busy"], row["bubble"]) for row in stages] == \
        [(str(stage), str(cycles), str(span - cycles)) for stage, cycles in sorted(busy.items())]
    text = re.sub(r"[\s\u202f]", "", page.main())
    assert f"eachwouldbebusy{round(sum(busy.values()) / len(busy))}cycles" in text
    assert f"Stage{max(busy, key=busy.get)}isthebusiest" in text
    assert not page.faults


# ---- Comparing -----------------------------------------------------------------------------------

def test_compare_aligns_renamed_layers(new_page, html):
    """By name, then by scope and type in order; what has no counterpart is listed."""
    page = new_page().open(f"{html('plain', 'renamed')}#v=compare", "compare")
    rows = {row["name"]: row for row in page.table("pairs")}
    how = collections.Counter(row["how"] for row in rows.values())
    assert rows["net/wide/Tanh"]["how"] == "name"
    assert how["scope and type"] == 1 and how["gone"] == 0
    pair, = [name for name, row in rows.items() if row["how"] == "scope and type"]
    assert pair == "net/narrow/MatMul → net/narrow/MatMul_1"
    row = rows[pair]
    assert row["change"] == "0.0 %" and number(row["difference"]) == 0
    waterfall = page.page.get_by_role("group", name="Cycles by part")
    assert waterfall.count() == 1
    for name in ("overlay-memory", "overlay-liveness"):
        page.page.locator(f"#{name}").focus()
        page.page.keyboard.press("ArrowRight")
        assert "B − A" in page.page.locator(f"#{name} ~ .tip").inner_text()
    assert not page.faults


def test_a_second_report_is_opened_beside_the_first(new_page, html, profiles, tmp_path):
    """Without opening the first again; one that cannot be read leaves the first as it is."""
    page = new_page().open(f"{html('plain')}#v=compare", "compare")
    (tmp_path / "profile.pop").write_text("no profile")
    page.page.locator("#second-folder").set_input_files(str(tmp_path))
    page.page.wait_for_selector("main [role=alert]")
    assert "profile.pop" in page.main()
    page.page.locator("#second-folder").set_input_files(str(profiles["changed"]))
    page.page.wait_for_selector("#pairs")
    assert [row["name"] for row in page.table("sides")] == [
        profiles[name].name for name in ("plain", "changed")]
    page.page.get_by_role("button", name="Report B").click()
    page.page.wait_for_selector("button[aria-pressed=true] >> text=Report B")
    assert not page.faults


def test_lines_are_tables_too(new_page, html, profiles):
    """Lines of chosen variables, and the overlays of two reports, with the numbers of SQLite."""
    press = 'figure:has(#%s) button:text-is("As table")'
    with database(profiles["plain"]) as one:
        variable, name, total = one.execute("SELECT id, name, total_bytes FROM variables "
                                            "ORDER BY total_bytes DESC").fetchone()
        tiles = one.execute("SELECT tile, total_including_gaps FROM memory_by_tile "
                            "ORDER BY tile").fetchall()
    page = new_page().open(f"{html('plain', 'changed')}#v=memory&lines={variable}", "memory")
    page.page.locator(press % "lines-chart").click()
    rows = page.table("lines-table")
    assert name in page.page.locator("#lines-table thead").inner_text()
    assert len(rows) == len(tiles) and sum(number(row["s0"]) for row in rows) == total
    page.go("v=compare")
    page.page.locator(press % "overlay-memory").click()
    assert [(number(row["place"]), number(row["s0"]))
            for row in page.table("overlay-memory-table")] == tiles
    page.page.locator(press % "overlay-liveness").click()
    assert len(page.table("overlay-liveness-table")) == 1000
    assert not page.faults


# ---- Saving and printing -------------------------------------------------------------------------

@pytest.mark.parametrize("view, chart", [
    ("memory", "memory-chart"), ("liveness", "liveness-chart"), ("trace", "trace-chart"),
    ("tiles", "tile-map"), ("insights", "histogram")])
def test_charts_are_saved_as_pictures(new_page, html, view, chart):
    page = new_page().open(f"{html('plain')}#v={view}", view)
    if view != "tiles":  # which paints its maps at once
        page.until(f"document.getElementById('{chart}').dataset.frame")
    button = page.page.get_by_role("button", name="Save PNG").first
    picture, name = saved(page, button.click)
    assert name == f"{chart}.png" and picture.startswith(b"\x89PNG") and len(picture) > 2000
    assert not page.faults


def test_a_saved_picture_has_its_whole_legend(new_page, html):
    """What does not fit beside each other stands in lines below the chart."""
    page = new_page()
    heights = []
    for width in (1280, 480):
        page.page.set_viewport_size({"width": width, "height": 720})
        page.open(f"{html('plain')}#v=memory&by=category", "memory")
        page.until("document.getElementById('memory-chart').dataset.frame")
        picture, _ = saved(page, page.page.get_by_role("button", name="Save PNG").first.click)
        wide, tall = struct.unpack(">II", picture[16:24])
        heights.append(tall - page.page.evaluate(
            "() => document.getElementById('memory-chart').height"))
        assert wide == page.page.evaluate("() => document.getElementById('memory-chart').width")
    assert heights[0] >= 56 and heights[1] >= heights[0] + 20
    assert not page.faults


def test_views_are_printed(new_page, html):
    """Without the frame around them; a long table has room for its rows in sight."""
    page = new_page().open(f"{html('plain')}#v=operations", "operations")
    page.page.emulate_media(media="print")
    assert not page.page.locator("nav").is_visible() and page.page.locator("h1").is_visible()
    paper = page.page.pdf()
    assert paper.startswith(b"%PDF") and len(paper) > 10_000
    assert not page.faults


def test_tables_are_saved_as_csv(new_page, html):
    page = new_page().open(f"{html('plain')}#v=operations", "operations")
    data, name = saved(page, page.page.get_by_role("button", name="Save CSV").first.click)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert name == "operations.csv"
    wanted = page.table("operations")
    assert [(row["Name"], row["Cycles"]) for row in rows] == \
        [(row["name"], row["cycles"]) for row in wanted]
    page.page.emulate_media(media="print")
    assert not page.page.locator("nav").first.is_visible()
    assert page.page.locator("#operations").is_visible()
    assert not page.faults


# ---- What a user looks for -----------------------------------------------------------------------

def test_one_step_to_what_is_looked_for(new_page, html, profiles):
    page = new_page().open(f"{html('plain')}#v=liveness", "liveness")
    with database(profiles["plain"]) as one:
        steps = [step for step, in one.execute(
            "SELECT program FROM liveness WHERE not_always_live = "
            "(SELECT max(not_always_live) FROM liveness)")]
    page.page.get_by_role("button", name="Highest step").click()
    page.page.wait_for_selector("#alive")
    assert int(re.search(r"step=(\d+)", page.page.url)[1]) in steps
    page.go("v=operations&layer=scope&op=net/wide")
    assert "Its steps" in page.main(), "a link to a scope inside of another"
    page.go("v=operations&layer=scope")
    page.page.get_by_role("link", name="Into net").click()
    page.until("location.hash.includes('under=net')")
    page.go("v=insights")
    assert "The program fits, so no change was planned" in page.main()
    page.go("v=memory")
    assert "a tile has 638\u202f976 bytes" in page.main()
    assert not page.faults


def test_the_pointer_means_the_spike_that_is_drawn(new_page, html):
    """Of the steps in a pixel the chart draws the fullest: that one is chosen."""
    page = new_page().open(f"{html('pipeline')}#v=liveness", "liveness")
    page.page.get_by_role("button", name="As table").first.click()
    rows = [(number(row["not_always_live"]), number(row["program"]))
            for row in page.table("liveness-table")]
    box = page.page.locator("#liveness-chart").bounding_box()
    with_steps = max(step for _, step in rows) + 1
    value, step = max(rows)
    page.page.mouse.click(box["x"] + (step + 0.5) / with_steps * box["width"], box["y"] + 60)
    page.page.wait_for_selector("#alive")
    chosen = int(re.search(r"step=(\d+)", page.page.url)[1])
    shown = max(bytes_ for bytes_, at in rows if at <= chosen)
    assert shown == value
    assert not page.faults
