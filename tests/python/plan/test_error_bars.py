"""Error bars: the table in the tool is that of the comparison, and answers show the bars."""

import json
import pathlib
import re
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "bench" / "fidelity"

MODULE = """HloModule m

ENTRY e {
  x = f16[4,56,56,64] parameter(0)
  w = f16[3,3,64,128] parameter(1)
  ROOT y = f16[4,56,56,128] convolution(x, w), window={size=3x3 pad=1_1x1_1}, LABELS
}
""".replace("LABELS", "dim_labels=b01f_01io->b01f")
BAR = r"[+-]\d+ to [+-]\d+ %"


@pytest.fixture(scope="module", name="error_bars")
def fixture_error_bars():
    sys.path.insert(0, str(FOLDER))
    try:
        import error_bars
        yield error_bars
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("error_bars", "layers", "tool"):
            sys.modules.pop(name, None)


def test_table_is_that_of_the_causes(error_bars):
    found = error_bars.bars(error_bars.points("causes"))
    assert error_bars.stored_rows()[1] == error_bars.table_text(found)


@pytest.mark.long
def test_held_out_points_are_inside(error_bars):
    held_out = error_bars.points("held-out")
    assert len(held_out) > 300
    inside, median = error_bars.summary(held_out, "cycles")
    assert 0.8 <= inside <= 0.95 and median <= 0.15
    inside, median = error_bars.summary(held_out, "bytes")
    assert 0.8 <= inside <= 0.95 and median <= 0.15


def test_bars_by_number_of_points(error_bars):
    assert error_bars.bar([0.9, 2], "cycles") == (-0.1, 1)           # from least to greatest
    low, high = error_bars.bar([1.1] * 5, "bytes")                   # no spread at all
    assert low == high == 0.1
    ratios = [1 + k / 100 for k in range(1, 64)]                     # ranks 4 and 60 of 63
    assert error_bars.bar(ratios, "bytes") == (0.04, 0.6)


def test_bar_of_few_layers(error_bars):
    def point(name, machine, kind, measured):
        return error_bars.Point(name, machine, kind, False, "bytes", measured, 1, 0, 0, 0)
    far = [point(f"layer{k}", "mk1", "matmuls", 1 + k / 100) for k in range(1, 64)]
    near = [point(name, machine, "reductions", 1)
            for name in ("a", "b", "c") for machine in ("mk1", "mk2")]
    low, high = error_bars.kind_bar(far + near, "bytes")[0]
    assert low <= 0.04 and high >= 0.58
    assert error_bars.kind_bar(far + near, "bytes", "reductions") == ((low, high), 6)
    near.append(point("d", "mk1", "reductions", 1))                  # a fourth layer
    assert error_bars.kind_bar(far + near, "bytes", "reductions") == ((0, 0), 7)


def test_answers_show_bars(tool, tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    text = tool.ok("plan", str(path))
    assert re.search(rf"needs .* bytes \(.* %\),\n{BAR} for convolutions with kernels like these",
                     text)
    assert re.search(rf"Cycles of a run: [\d ]+, {BAR} for .* like these", text)
    case, = json.loads(tool.ok("plan", str(path), "--json"))["cases"]
    cycles, memory = case["cycles"], case["memory"]
    assert cycles["low"] < cycles["total"] < cycles["high"]
    assert memory["worst_tile_bytes_low"] < memory["worst_tile_bytes"]
    assert memory["worst_tile_bytes"] < memory["worst_tile_bytes_high"]
    assert memory["like"] == "convolutions with kernels"
    assert sum(one["cycles"] for one in case["kinds"]) == pytest.approx(cycles["total"], abs=9)
    layers = case["layers"]
    assert sum(one["cycles_high"] for one in layers) == pytest.approx(cycles["high"], abs=30)


def test_fits_within_the_error(tool, tmp_path):
    """Memory that the estimate meets, and its bar does not."""
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    plan = ["plan", str(path), "--option", "available_memory_proportion=1"]  # the plan stays
    case, = json.loads(tool.ok(*plan, "--json"))["cases"]
    middle = (case["memory"]["worst_tile_bytes"] + case["memory"]["worst_tile_bytes_high"]) // 2
    done = json.loads(tool.ok(*plan, "--what-if", f"memory={middle}", "--json"))
    changed = done["cases"][0]["what_if"]
    assert changed["fits"]
    text = tool.ok(*plan, "--what-if", f"memory={middle}")
    assert re.search(r"fits +yes +barely", text)
