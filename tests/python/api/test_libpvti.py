"""libpvti: what programs call of it."""

import os
import subprocess
import sys

import libpvti as pvti
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
    assert done.stderr.count("PVTI_OPTIONS is set, but Tremula writes no traces") == warnings
