"""libpvti: what programs call of it, and the traces that it writes."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

import libpvti as pvti
import pva
import pytest


def test_marks_do_nothing_to_the_program():
    channel = pvti.createTraceChannel("Application")
    assert ["Application", False] in pvti.listTraceChannel()
    assert [name for name, _ in pvti.listTraceChannel()][:3] == ["Drivers", "Poplar", "Framework"]
    with pvti.Tracepoint(channel, "epoch"):
        pvti.Tracepoint.begin(channel, "step")
        pvti.Tracepoint.event(pvti.traceDrivers, "now")
        pvti.Tracepoint.end(channel, "step")

    @pvti.instrument_fn(channel)
    def add(a, b=1):
        """Adds."""
        return a + b

    assert add(1, b=2) == 3 and add.__doc__ == "Adds."

    class Model:
        def train(self, x):
            return 2 * x

    model = Model()
    pvti.instrument(model, ["train"], channel)
    assert model.train(4) == 8
    pvti.Graph("Loss", "").addSeries("Training").add(0.5)
    pvti.HeatmapDouble("weights", [-1, 0, 1], "2^x").add([0.1, 0.5])
    assert pvti.getCurrentTraceFilename() == ""
    pvti.closeTrace()


@pytest.mark.parametrize("act, error, words", [
    (lambda: pvti.Tracepoint("Drivers", "label"), TypeError, "createTraceChannel"),
    (lambda: pvti.Tracepoint(pvti.tracePoplar, 3), TypeError, "label must be a str"),
    (lambda: pvti.createTraceChannel(None), TypeError, "name of a channel"),
    (lambda: pvti.checkTraceChannel("Drivers"), TypeError, "createTraceChannel"),
    (lambda: pvti.instrument(object(), ["none"], pvti.tracePoplar), AttributeError, "none"),
    (lambda: pvti.Graph("Loss").addSeries(1), TypeError, "name of a series"),
    (lambda: pvti.Graph("Loss").addSeries("a").add("x"), ValueError, "x"),
    (lambda: pvti.HeatmapDouble("w", [1, 0]), ValueError, "numbers that rise"),
])
def test_refused(act, error, words):
    with pytest.raises(error, match=words):
        act()


CHANNELS = """
import libpvti as pvti
mine = pvti.createTraceChannel("Mine")
print([pvti.checkTraceChannel(one) for one in (mine, pvti.tracePoplar)])
pvti.enableTraceChannel(pvti.tracePoplar)
pvti.disableTraceChannel(mine)
print([pvti.checkTraceChannel(one) for one in (mine, pvti.tracePoplar)])
"""


@pytest.mark.parametrize("options, warnings, enabled", [
    ('{"enable": "true"}', 1, ["[True, True]", "[False, True]"]),
    ('{"enable": true, "channels": ["Mine"]}', 1, ["[True, False]", "[False, True]"]),
    ("on", 1, ["[True, True]", "[False, True]"]),
    ("{}", 1, ["[True, True]", "[False, True]"]),
    ('{"enable": "false"}', 0, ["[False, False]"] * 2),
    ("", 0, ["[False, False]"] * 2),
])
def test_one_warning_where_a_trace_is_wanted(options, warnings, enabled):
    done = subprocess.run(
        [sys.executable, "-c", CHANNELS], capture_output=True, text=True,
        env=dict(os.environ, PVTI_OPTIONS=options,
                 PYTHONPATH=os.path.dirname(os.path.dirname(pvti.__file__))))
    assert done.stdout.splitlines() == enabled, done.stderr
    assert done.stderr.count("PVTI_OPTIONS is set: what this process marks") == warnings


TRACED = """
import os, threading
import libpvti as pvti
mine = pvti.createTraceChannel("Mine")
other = pvti.createTraceChannel("Other")

def work():
    with pvti.Tracepoint(mine, "thread's work"):
        pvti.Tracepoint.event(mine, "a moment")

with pvti.Tracepoint(mine, "epoch"):
    for step in range(3):
        with pvti.Tracepoint(mine, f"step {step}"):
            pass
    pvti.Tracepoint.begin(other, "not wanted")
    pvti.Tracepoint.end(mine, "never begun")
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
loss = pvti.Graph("Loss", "1").addSeries("training")
for value in (0.5, 0.25):
    loss.add(value)
pvti.HeatmapDouble("weights", [-1, 0, 1], "2^x").add([0.1, 0.5, -0.5, 1, 7])
pvti.Tracepoint.begin(mine, "still open at the end")
print(pvti.getCurrentTraceFilename())
if os.fork() == 0:
    with pvti.Tracepoint(mine, "in a child"):
        pass
    pvti.closeTrace()
    os._exit(0)
os.wait()
"""


def traced(folder, text, **options):
    wanted = {"enable": "true", "directory": str(folder / "reports"), **options}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=600, check=False,
        env=dict(os.environ, PVTI_OPTIONS=json.dumps(wanted),
                 PYTHONPATH=os.path.dirname(os.path.dirname(pvti.__file__))))
    assert done.returncode == 0, done.stderr
    return done


def test_a_trace_is_written_and_read(tmp_path):
    done = traced(tmp_path, TRACED, channels=["Mine"])
    path = done.stdout.strip()
    files = sorted(map(str, (tmp_path / "reports").iterdir()))
    assert path in files and len(files) == 2  # the child's is the other
    process, = pva.openTrace(path).processes
    main, worker = process.threads
    assert (main.name, worker.name) == ("MainThread", "worker")
    epoch, still_open = main.events
    assert epoch.label == "epoch" and epoch.channel == "Mine"
    assert [one.label for one in epoch.children()] == ["step 0", "step 1", "step 2"]
    assert all(epoch.timestamp <= one.timestamp and one.timestamp + one.duration <=
               epoch.timestamp + epoch.duration for one in epoch.children())
    assert still_open.label == "still open at the end" and not still_open.children()
    moment, = worker.events[0].children()
    assert (moment.label, moment.duration) == ("a moment", 0)
    series, = pva.openTrace(path).series
    assert (series.graph, series.name, [value for _, value in series.points]) == \
        ("Loss", "training", [0.5, 0.25])
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT edges, counts FROM heatmaps JOIN counts ON heatmap = id"
                                ).fetchall() == [("[-1.0, 0.0, 1.0]", "[1, 3]")]
    other, = {*files} - {path}
    child, = pva.openTrace(other).processes
    assert [one.label for one in child.threads[0].events] == ["in a child"]


def test_a_trace_has_a_duration(tmp_path):
    traced(tmp_path, TRACED, duration=0)
    assert not (tmp_path / "reports").exists()


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "reports").write_text("a file")
    done = traced(tmp_path, TRACED)
    assert "cannot be written" in done.stderr


def test_no_trace(tmp_path):
    (tmp_path / "x.pvti").write_text("no database")
    with pytest.raises(ValueError, match="no trace that can be read"):
        pva.openTrace(str(tmp_path / "x.pvti"))
    with pytest.raises(FileNotFoundError):
        pva.openTrace(str(tmp_path / "none.pvti"))
    with contextlib.closing(sqlite3.connect(tmp_path / "y.pvti")) as database:
        database.executescript("CREATE TABLE meta(key, value);"
                               "INSERT INTO meta VALUES('format', 9)")
    with pytest.raises(ValueError, match="has the format 9"):
        pva.openTrace(str(tmp_path / "y.pvti"))
