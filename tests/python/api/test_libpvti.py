"""libpvti: what programs call of it."""

import os
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


def run(text, options, folder):
    root = os.path.dirname(os.path.dirname(pvti.__file__))
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=folder,
        env=dict(os.environ, PVTI_OPTIONS=options, PYTHONPATH=root), check=False)


CHANNELS = """
import libpvti as pvti
mine = pvti.createTraceChannel("Mine")
print([pvti.checkTraceChannel(one) for one in (mine, pvti.tracePoplar)])
pvti.enableTraceChannel(pvti.tracePoplar)
pvti.disableTraceChannel(mine)
print([pvti.checkTraceChannel(one) for one in (mine, pvti.tracePoplar)])
"""


@pytest.mark.parametrize("options, enabled", [
    ('{"enable": "true"}', ["[True, True]", "[False, True]"]),
    ('{"enable": true, "channels": ["Mine"]}', ["[True, False]", "[False, True]"]),
    ("on", ["[True, True]", "[False, True]"]),
    ("{}", ["[True, True]", "[False, True]"]),
    ('{"enable": "false"}', ["[False, False]"] * 2),
    ("", ["[False, False]"] * 2),
])
def test_channels(options, enabled, tmp_path):
    done = run(CHANNELS, options, tmp_path)
    assert done.stdout.splitlines() == enabled, done.stderr
    assert done.stderr == ""


MARKS = """
import libpvti as pvti
mine = pvti.createTraceChannel("Mine")


@pvti.instrument_fn(mine)
def train(turns):
    for turn in range(turns):
        with pvti.Tracepoint(mine, f"turn {turn}"):
            pvti.Tracepoint.event(pvti.traceFramework, "half way")
            loss.add(1 / (turn + 1))


loss = pvti.Graph("Loss", "nats").addSeries("Training")
train(3)
pvti.HeatmapDouble("weights", [-1, 0, 1], "2^x").add([0.1, 0.5, -0.5])
pvti.addMetadata("model", "m\u00fcnchen")
print(pvti.getCurrentTraceFilename())
"""


def test_marks_are_recorded(tmp_path):
    done = run(MARKS, '{"enable": "true", "directory": "a/b"}', tmp_path)
    path, = (tmp_path / "a" / "b").glob("*.pvti")
    assert (tmp_path / done.stdout.strip()).samefile(path), done.stderr
    trace = pva.openTrace(str(path))
    train, = trace.processes[0].threads[0].events
    assert (train.label, train.channel) == ("train", "Mine")
    assert [turn.label for turn in train.children()] == ["turn 0", "turn 1", "turn 2"]
    moment, = train.children()[1].children()
    assert (moment.label, moment.channel, moment.duration) == ("half way", "Framework", None)
    assert sum(turn.duration for turn in train.children()) <= train.duration
    series, = trace.series
    assert (series.graph, series.name, series.unit) == ("Loss", "Training", "nats")
    assert [value for _, value in series.points] == [1, 1 / 2, 1 / 3]
    assert trace.metadata["model"] == "m\u00fcnchen"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(MARKS, '{"enable": "true", "directory": "file/b"}', tmp_path)
    assert done.returncode == 0 and done.stdout == "\n"
    assert done.stderr.count("No timeline is written any more") == 1
