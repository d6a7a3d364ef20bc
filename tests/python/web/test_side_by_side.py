"""Profiles of several instances of one program: side by side in the Trace, each in every view."""

import gzip
import json
import sqlite3

import numpy as np
import pva
import pytest

import hlo_programs
from analyser import tremula
from tremula.tool import view

LANE = 40  # pixels of a lane of one level, with its title


@pytest.fixture(scope="module")
def profiles_of_three(tmp_path_factory):
    """Those of three instances, as mpirun would start them. The second waits for its host."""
    folder = tmp_path_factory.mktemp("instances")
    (folder / "program.hlo").write_text(hlo_programs.LOOP, encoding="utf-8")
    np.save(folder / "x.npy", np.ones((128, 128), np.float32))
    tremula("compile", "program.hlo", "-o", "x.poplar_exec", folder=folder)
    found = []
    for rank in range(3):
        own = folder / f"instance_{rank}"
        own.mkdir()
        tremula("run", "../x.poplar_exec", "--input", "0=../x.npy", "--repeat", "2",
                "--output", "out", folder=own, POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}',
                OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="3")
        profile, = own.glob("tf_report__*")
        found.append(profile)
    return found


def wanted(profile):
    """What the table says of an instance in its second run."""
    database = sqlite3.connect(profile / "profile.pop")
    meta = dict(database.execute("SELECT key, value FROM meta"))
    run, = database.execute("SELECT * FROM runs WHERE id = 1")
    names = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
    run = dict(zip(names, run, strict=True))
    database.close()
    return int(meta["instance"]), int(meta["replica_offset"]), run


def check_saved(page, profiles):
    """Perfetto's file has all instances, a process each, whose rows begin when they run."""
    with page.page.expect_download() as saving:
        page.page.get_by_role("button", name="Save for Perfetto").click()
    events = json.loads(gzip.decompress(saving.value.path().read_bytes()))["traceEvents"]
    names = {row["pid"]: row["args"]["name"] for row in events if row["name"] == "process_name"}
    assert sorted(names.values()) == ["instance 0", "instance 1", "instance 2"]
    for profile in profiles:
        instance, _, run = wanted(profile)
        pid, = (pid for pid, name in names.items() if name == f"instance {instance}")
        rows = [row for row in events if row["pid"] == pid and row["ph"] == "X"]
        scale = 1e6 / pva.openReport(str(profile)).compilation.target.clockFrequency
        ends = max(row["ts"] + row["dur"] for row in rows)
        assert len(rows) > 1 and ends == pytest.approx(run["cycles"] * scale)


def test_lanes_side_by_side(new_page, profiles_of_three, tmp_path):
    out = tmp_path / "page.html"
    tremula("report", *profiles_of_three, "--html", out)
    page = new_page().open(f"{out.as_uri()}#v=trace&run=1&mode=flat", "trace")
    rows = page.table("instances-table")
    assert len(rows) == 3
    for row, profile in zip(rows, profiles_of_three, strict=True):
        instance, offset, run = wanted(profile)
        assert (float(row["instance"]), float(row["replica_offset"])) == (instance, offset)
        assert float(row["cycles"]) == run["cycles"]
    # Into the steps of the second instance, which are in the lane under its run.
    begin = float(rows[1]["wait"]) + float(rows[1]["load"])
    page.go(f"v=trace&run=1&mode=flat&z={begin:.0f}-{float(rows[1]['cycles']):.0f}")
    chart = page.page.locator("#trace-chart")
    box = chart.bounding_box()
    assert box["height"] >= 6 * LANE
    chart.click(position={"x": box["width"] / 2, "y": 3 * LANE + LANE / 2})
    page.until("location.hash.includes('r=b')")
    page.wait("trace")
    assert "row=" in page.page.url
    check_saved(page, profiles_of_three)
    menu = page.page.locator("select[data-focus=r]")
    assert menu.input_value() == "b"
    menu.select_option(label="2")
    page.until("location.hash.includes('r=2')")
    page.go("v=summary&r=2")
    assert page.value("num_ipus") == 1
    page.go("v=compare&r=2")
    assert not page.faults


def test_other_profiles_stay_pairs(profiles_of_three, profiles):
    one, two, _ = profiles_of_three
    assert view.split(profiles_of_three)[0] == profiles_of_three
    for others in ([one, two, profiles["plain"]], [one, two, two]):
        with pytest.raises(view.tool.Complaint, match="instances of one program, not 3 others"):
            view.split(others)
