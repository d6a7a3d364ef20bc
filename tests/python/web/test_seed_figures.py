"""The two pictures of the seed's chapter on tuning, of a ResNeXt's inference: an IPU that waits for
the host before it computes, and a floor of memory with spikes at convolutions."""

import json

import interpreter
import pytest

from analyser import ROOT, environment, tremula

# The colour in the middle of the host's lane, after a share of the width.
_PROBE = """share => {
    const canvas = document.getElementById("trace-chart");
    const x = share * (canvas.width - 1), y = 28 * canvas.width / canvas.clientWidth;
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
}"""
_COLOUR = """letter => {
    const style = getComputedStyle(document.documentElement);
    const value = parseInt(style.getPropertyValue("--" + letter).trim().slice(1), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
}"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resnext")
    done = interpreter.run(
        [ROOT / "examples/resnext.py", "--depth", "50", "--size", "64",
         "--batches-per-run", "1", "--runs", "2"], cwd=folder,
        env=environment(POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}'))
    assert done.returncode == 0, done.stderr[-2000:]
    found, = folder.glob("tf_report__*")
    return found


def test_waiting_then_transfers_then_compute(new_page, profile, tmp_path):
    tremula("report", profile, "--html", tmp_path / "page.html")
    run = json.loads(tremula("report", profile, "--json").stdout)["runs"][1]
    waits, works = run["wait_cycles"], run["cycles"] - run["wait_cycles"]
    assert waits > works
    # As much of waiting as of work: on a busy machine work is narrower than a pixel of the whole.
    link = f"v=trace&run=1&z={int(waits - works)}-{int(waits + works)}"
    page = new_page().open(f"{(tmp_path / 'page.html').as_uri()}#{link}", "trace")
    page.until("document.getElementById('trace-chart').dataset.frame")
    waiting = page.page.evaluate(_COLOUR, "W")
    for share in (0.1, 0.3, 0.45):
        assert page.page.evaluate(_PROBE, share) == waiting
    assert page.page.evaluate(_PROBE, 0.75) != waiting
    page.page.get_by_role("button", name="As table").first.click()
    rows = page.table("trace-table")
    first = {part: next(i for i, row in enumerate(rows) if part in row[column])
             for column, part in (("kind", "transfers with the host"), ("name", "Conv2D"))}
    assert first["transfers with the host"] < first["Conv2D"]
    assert not page.faults


def test_a_floor_and_spikes_at_convolutions(new_page, profile, tmp_path):
    tremula("report", profile, "--html", tmp_path / "page.html")
    page = new_page().open(f"{(tmp_path / 'page.html').as_uri()}#v=liveness", "liveness")
    page.page.get_by_role("button", name="As table").first.click()
    rows = [(float(row["not_always_live"]), float(row["live"]), row["name"])
            for row in page.table("liveness-table")]
    floor, = {live - spike for spike, live, _ in rows}
    highest = sorted(rows, reverse=True)
    assert floor > 2 * highest[len(rows) // 2][0], "the floor is most of the memory"
    assert highest[0][0] > 4 * highest[len(rows) // 2][0], "and there are spikes"
    # The last layer is a product, which poplin computes as a convolution.
    assert all("Conv2D" in name or "/MatMul/" in name for _, _, name in highest[:10])
    assert not page.faults
