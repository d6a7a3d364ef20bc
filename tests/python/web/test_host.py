"""The host's timelines over the IPU's lanes: numbers against pva.openTrace, ways in, damage."""

import contextlib
import gzip
import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pva
import pytest

import hlo_programs
from analyser import environment, tremula
from tremula import tool
from tremula.tool import view

MARKS = """
import libpvti as pvti
mine = pvti.createTraceChannel("Mine <b>")
with pvti.Tracepoint(mine, "<img src=x onerror=alert(1)>"):
    with pvti.Tracepoint(pvti.traceFramework, "inside"):
        pvti.Tracepoint.event(pvti.traceDrivers, "now")
loss = pvti.Graph("Loss", "nats").addSeries("Training")
for value in (3.0, 2.0, 0.5):
    loss.add(value)
sizes = pvti.HeatmapDouble("Sizes <i>", [0, 1, 10, 100.5], "MB")
for values in ([0.5, 0.25, 7], [], [9.5, 50, 50, 50, 200]):
    sizes.add(values)
"""


def marks(one, depth=0):
    """(label, channel, time, duration) of every mark of a thread, the inner ones too."""
    for event in one:
        yield event.label, event.channel, event.timestamp, event.duration
        yield from marks(event.children())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A profile of two runs, the timeline beside it, and one of marks of a program's own."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "program.hlo").write_text(hlo_programs.LOOP, encoding="utf-8")
    np.save(folder / "x.npy", np.ones((128, 128), np.float32))
    tremula("compile", "program.hlo", "-o", "x.poplar_exec", folder=folder)
    tremula("run", "x.poplar_exec", "--input", "0=x.npy", "--repeat", "2", "--output", "out",
            folder=folder, PVTI_OPTIONS='{"enable":"true"}',
            POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}')
    profile, = folder.glob("tf_report__*")
    timeline, = folder.glob("*.pvti")
    own = folder / "own"
    own.mkdir()
    subprocess.run([sys.executable, "-c", MARKS], check=True, timeout=600, cwd=own,
                   env=environment(PVTI_OPTIONS='{"enable":"true"}'))
    other, = own.glob("*.pvti")
    return profile, timeline, other


def numbers(page, path):
    """Asserts that the table of the page has what Python reads."""
    trace = pva.openTrace(str(path))
    wanted = sorted(marks(event for process in trace.processes for thread in process.threads
                          for event in thread.events))
    wanted_points = sorted((series.name, at, value) for series in trace.series
                           for at, value in series.points)
    rows = page.table("host-table")
    real = [(row["label"], row["channel"], float(row["ts_us"]),
             float(row["dur_us"]) if row["dur_us"] not in ("NaN", "") else None)
            for row in rows if row["value"] in ("NaN", "")]
    points = [(row["label"], float(row["ts_us"]), float(row["value"]))
              for row in rows if row["value"] not in ("NaN", "")]
    assert sorted(real) == wanted and sorted(points) == wanted_points
    return wanted


def test_lanes_over_the_run(new_page, recorded, tmp_path):
    """The timeline beside the profile is found; the run begins where the host began it."""
    profile, timeline, _ = recorded
    out = tmp_path / "page.html"
    tremula("report", profile, "--html", out)
    page = new_page().open(f"{out.as_uri()}#v=trace", "trace")
    page.page.get_by_text("Marks of the host as a table").click()
    page.page.wait_for_selector("#host-table")
    wanted = numbers(page, timeline)
    runs = sorted(at for label, _, at, _ in wanted if label.startswith("Engine::run "))
    with page.page.expect_download() as saving:
        page.page.get_by_role("button", name="Save for Perfetto").click()
    assert saving.value.suggested_filename == "trace.json.gz"
    events = json.loads(gzip.decompress(saving.value.path().read_bytes()))["traceEvents"]
    host = sorted(row["ts"] for row in events if row["name"].startswith("Engine::run "))
    ipu = min(row["ts"] for row in events if row["pid"] == 1 and row["ph"] == "X")
    report = pva.openReport(str(profile))
    meta = report.execution._database.meta
    for one, place in zip(runs, host, strict=True):
        assert abs(place - (one - meta["first_run_us"])) < 1  # the first run does not wait
    load = report.execution.runs[0].loadCycles / report.compilation.target.clockFrequency * 1e6
    assert abs(ipu - load) < 1
    canvas = page.page.locator("#trace-chart")
    canvas.focus()
    for _ in range(2):
        page.page.keyboard.press("ArrowRight")
    page.page.get_by_role("button", name="Fit the host's timeline").click()
    assert "z=" in page.page.url
    # Threads that are idle in the run are shown then; the page as it was has lost the focus.
    page.go(page.page.url.split("#")[1])
    canvas.focus()
    for _ in range(4):
        page.page.keyboard.press("ArrowLeft")
    assert " UTC" in page.page.locator(".tip").first.inner_text()
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#chosen-mark")
    assert "mark=" in page.page.url
    page.page.reload()
    page.page.wait_for_selector("#chosen-mark")
    page.go("v=trace&mode=heavy")
    page.go("v=trace&mode=flat&run=1")
    assert not page.faults


# Threads with how long they work, in runs: (begin, duration), without one a moment.
THREADS = {"ticks": (0.25, None), "before": (-900, 500), "half": (0, 0.5), "after": (300, 500),
           "whole": (-1000, 2000)}


@pytest.fixture(scope="module")
def threads(recorded, tmp_path_factory):
    """A page of a run and a timeline with these threads."""
    profile, timeline, _ = recorded
    folder = tmp_path_factory.mktemp("threads")
    report = pva.openReport(str(profile))
    began = report.execution._database.meta["first_run_us"]
    long = json.loads(tremula("report", profile, "--json").stdout)["runs"][0]["cycles"] / \
        report.compilation.target.clockFrequency * 1e6
    path = folder / timeline.name
    shutil.copy(timeline, path)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        process, = database.execute("SELECT id FROM processes").fetchone()
        channel, = database.execute("SELECT id FROM channels").fetchone()
        for table in ("events", "threads", "points", "series"):
            database.execute(f"DELETE FROM {table}")
        for i, (name, (begin, duration)) in enumerate(THREADS.items(), 1):
            database.execute("INSERT INTO threads(id, process, name) VALUES (?, ?, ?)",
                             (i, process, name))
            database.execute(
                "INSERT INTO events(id, thread, channel, parent, ts_us, dur_us, label) "
                "VALUES (?, ?, ?, 0, ?, ?, ?)",
                (i, i, channel, began + begin * long, duration and duration * long, f"by {name}"))
    shutil.copytree(profile, folder / profile.name)
    tremula("report", folder / profile.name, "--html", folder / "page.html")
    return (folder / "page.html").as_uri()


def lanes(page, share=0.25):
    """What the lanes of the host have at a share of the width, from the top."""
    found = []
    box = page.page.locator("#trace-chart").bounding_box()
    for y in range(4, int(box["height"]) - 40, 4):
        page.page.mouse.move(box["x"] + share * box["width"], box["y"] + y)
        text = page.page.locator("#trace-chart ~ .tip").text_content()
        first = text.split("\n")[0]
        if (first.startswith("by ") or "idle" in first) and first not in found:
            found.append(first)
    return found


def test_idle_threads_are_one_lane(new_page, threads):
    """Threads that do most are first; those that do nothing in the run open by click, by key and
    by the button, and the link says so."""
    page = new_page().open(f"{threads}#v=trace", "trace")
    tall = "document.getElementById('trace-chart').clientHeight"
    folded = page.page.evaluate(tall)
    assert lanes(page) == ["by whole", "by half", "by ticks", "2 idle threads"]
    page.page.locator("#trace-chart").focus()
    for _ in range(20):
        page.page.keyboard.press("ArrowUp")
        if "idle" in page.page.locator("#trace-chart ~ .tip").text_content():
            break
    page.page.keyboard.press("Enter")
    page.until(f"location.hash.includes('idle=open') && {tall} > {folded}")
    link = page.page.url
    page.page.get_by_role("button", name="Idle threads (2)", pressed=True).click()
    page.until(f"!location.hash.includes('idle') && {tall} === {folded}")
    assert page.page.evaluate("document.activeElement.textContent") == "Idle threads (2)"
    page.page.get_by_role("button", name="Fit the host's timeline").click()
    page.until(f"location.hash.includes('idle=open') && {tall} > {folded}")
    assert lanes(page, 0.9) == ["by whole", "2 idle threads", "by after"]
    other = new_page().open(link, "trace")
    assert other.page.evaluate(tall) > folded
    assert lanes(other) == ["by whole", "by half", "by ticks", "2 idle threads"]
    other.page.get_by_text("Marks of the host as a table").click()
    other.page.wait_for_selector("#host-table")
    assert {row["label"] for row in other.table("host-table")} == {f"by {one}" for one in THREADS}
    assert not page.faults and not other.faults


def test_alone_and_before_a_profile(new_page, viewer, recorded):
    """A timeline alone has a page; names are text; a profile may follow."""
    profile, _, other = recorded
    page = new_page()
    page.page.goto(viewer.as_uri())
    files = page.page.locator("#choose-files")
    files.set_input_files(str(other))
    page.page.wait_for_selector("#host-chart")
    page.page.get_by_role("button", name="As table").first.click()
    assert len(numbers(page, other)) == 3
    assert "<img src=x" in page.main() and page.page.locator("main img").count() == 0
    heatmap, = pva.openTrace(str(other)).heatmaps
    assert (heatmap.name, heatmap.unit, heatmap.edges) == ("Sizes <i>", "MB", [0, 1, 10, 100.5])
    assert [counts for _, counts in heatmap.counts] == [[2, 1, 0], [0, 0, 0], [0, 1, 3]]
    page.page.locator("figure:has(#heatmap-0-0)").get_by_role("button", name="As table").click()
    assert [tuple(map(float, row.values())) for row in page.table("heatmap-0-0-table")] == [
        (at, low, high, count) for at, counts in heatmap.counts
        for low, high, count in zip(heatmap.edges[:-1], heatmap.edges[1:], counts, strict=True)]
    page.page.locator("#heatmap-0-0").focus()
    for key in ("End", "ArrowUp"):
        page.page.keyboard.press(key)
    assert "10 to 100.5 MB: 3\nof 4" in page.page.locator(".tip:visible").inner_text()
    page.page.locator("#host-chart").focus()
    for key in ("ArrowRight", "ArrowLeft", "Enter"):
        page.page.keyboard.press(key)
    page.page.wait_for_selector("#chosen-mark")
    page.page.locator("#more-folder").set_input_files(str(profile))
    page.wait("summary")
    page.go("v=trace")
    page.page.get_by_text("Marks of the host as a table").click()
    page.page.wait_for_selector("#host-table")
    numbers(page, other)
    assert not page.faults


def test_added_to_an_open_profile(new_page, html, recorded):
    """By the Trace's own button; a profile without runs has the marks on their own axis."""
    page = new_page().open(f"{html('plain')}#v=trace", "trace")
    page.page.locator("#more-timelines").set_input_files(str(recorded[1]))
    page.page.wait_for_selector("#host-chart")
    assert "has no runs" in page.main() and not page.faults


def test_other_days_no_runs_and_damage(new_page, viewer, recorded, profiles, tmp_path):
    """Each has its sentence, and what can be shown is shown."""
    profile, timeline, _ = recorded
    old = tmp_path / "old.pvti"
    shutil.copy(timeline, old)
    with sqlite3.connect(old) as database:
        database.execute("UPDATE events SET ts_us = ts_us - 3 * 86400e6")
    database.close()
    bad = tmp_path / "bad.pvti"
    bad.write_bytes(timeline.read_bytes()[:5000])
    wrong = tmp_path / "wrong.pvti"
    shutil.copy(timeline, wrong)
    with sqlite3.connect(wrong) as database:
        database.execute("UPDATE events SET ts_us = 'soon' WHERE id = 2")
    database.close()
    foreign = tmp_path / "foreign.pvti"
    shutil.copy(profile / "profile.pop", foreign)
    for path, words in [(bad, "damaged"), (wrong, "of a wrong kind"), (foreign, "format 2")]:
        out = tmp_path / f"{path.stem}.html"
        tremula("report", profile, path, "--html", out)
        page = new_page().open(f"{out.as_uri()}#v=trace", "trace")
        assert words in page.main() and path.name in page.main()
        assert page.page.locator("text=Marks of the host").count() == 1
        assert not page.faults
    page = new_page()
    page.page.goto(viewer.as_uri())
    page.page.locator("#choose-files").set_input_files(str(bad))
    page.page.wait_for_selector("text=is no timeline that Tremula wrote, or is damaged")
    for given, words in [([profile, old], "is of another day"),
                         ([profiles["plain"], timeline], "has no runs")]:
        page = new_page()
        path = tmp_path / "apart.html"
        tremula("report", *given, "--html", path)
        page.open(f"{path.as_uri()}#v=trace", "trace")
        assert words in page.main()
        assert page.page.locator("#host-chart").count() == 1
        assert not page.faults


def test_command_line(recorded, tmp_path):
    """What is given and what is found; what cannot be is refused."""
    profile, timeline, other = recorded
    assert view.split([profile]) == ([profile], [timeline])
    assert view.split([profile, timeline, other]) == ([profile], [timeline, other])
    assert view.split([other]) == ([], [other])
    with pytest.raises(tool.Complaint, match="there is no timeline"):
        view.split([profile, "none.pvti"])
    done = tremula("report", profile, timeline, check=False)
    assert done.returncode != 0 and "--html" in done.stderr
    done = tremula("view", profile, profile, profile, check=False)
    assert done.returncode != 0 and "instances of one program, not 3 others" in done.stderr


def test_server_gives_timelines(new_page, recorded):
    import threading
    profile, timeline, _ = recorded
    server = view._Server([profile], 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = new_page().open(f"{server.url}#v=trace", "trace")
    page.page.get_by_text("Marks of the host as a table").click()
    page.page.wait_for_selector("#host-table")
    numbers(page, timeline)
    assert not page.faults
    server.shutdown()
    server.server_close()
