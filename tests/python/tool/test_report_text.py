"""tremula report: its text and its JSON have the same figures, and the page names every key."""

import json
import pathlib
import re

import pytest

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/profile_format.md").read_text()
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
PROGRAM = """HloModule net

ENTRY e {
  x = f32[64,512] parameter(0)
  w = f32[512,512] parameter(1)
  h = f32[64,512] dot(x, w), DOT, metadata={op_name="one/MatMul"}FIRST
  ROOT y = f32[64,512] dot(h, w), DOT, metadata={op_name="two/MatMul"}SECOND
}
""".replace("DOT", DOT)
PLAN = ["--option", "available_memory_proportion=1"]  # another tile has the same plan
OPTIONS = json.dumps({"autoReport.all": "true"})


def profile(tool, name, first="", second="", *options, code=0):
    text = PROGRAM.replace("FIRST", first).replace("SECOND", second)
    tool.write(f"{name}.hlo", text)
    before = set(tool.folder.glob("tf_report__*"))
    done = tool("compile", f"{name}.hlo", "-o", "x.poplar_exec", *options,
                POPLAR_ENGINE_OPTIONS=OPTIONS)
    assert done.returncode == code, done.stderr
    found, = set(tool.folder.glob("tf_report__*")) - before
    return found


def number(text):
    return int(text.replace(" ", ""))


@pytest.fixture
def two(tool):
    """The profiles of a program on an IPU and over two."""
    return profile(tool, "whole"), profile(
        tool, "cut", ", sharding={maximal device=0}", ", sharding={maximal device=1}",
        "--ipus", "2")


def test_parts_of_two_reports_add_up(tool, two):
    text = tool.ok("report", *two)
    table = text[text.index("change"):text.index("cycles A")]
    rows = {name.strip(): (number(a), number(b), change) for name, a, b, change in re.findall(
        r"^ +(\D+?)  +(-?\d[\d ]*?)  +(-?\d[\d ]*?)(?: +([+-][\d.]+%))?$", table, re.MULTILINE)}
    total = rows.pop("cycles of a run")
    parts = [row for name, row in rows.items() if not name.startswith("bytes")]
    for side in (0, 1):
        assert sum(row[side] for row in parts) == total[side]
    assert rows["exchange between IPUs"][0] == 0 < rows["exchange between IPUs"][1]
    assert rows["exchange between IPUs"][2] == ""  # no share of nothing
    assert not re.search(r"[AB]: *$", text, re.MULTILINE)


def test_a_profile_that_barely_fits(tool):
    whole = json.loads(tool.ok("report", profile(tool, "whole", "", "", *PLAN), "--json"))
    bar = whole["error_bars"]["worst_tile_bytes"]
    assert whole["fits"] and not whole["is_close"]
    for name, end, verdict in (("above", "high", "it barely fits"),
                               ("below", "low", "OUT OF MEMORY")):
        limit = (whole["worst_tile_bytes"] + bar[end]) // 2 // 8 * 8
        tool.write(f"{name}.json", json.dumps({
            "base": "mk2", "name": name, "memoryBytesPerTile": limit,
            "memoryElementOffsets": [0, limit // 2], "interleavedMemoryElementIndex": 1}))
        found = profile(tool, name, "", "", "--target", f"./{name}.json", *PLAN,
                        code=int(name == "below"))
        text = tool.ok("report", found)
        assert f"\nMemory: {verdict}\n" in text
        assert "nearer to the limit than this estimate is exact" in text
        assert json.loads(tool.ok("report", found, "--json"))["is_close"] is True


def test_the_page_names_every_key(tool, two):
    start = PAGE.index("`--json` prints one object")
    one, both = PAGE[start:PAGE.index("The Python module `pva`")].split("Of two profiles")

    def keys(value, skipped=("cycles_by_part", "memory_by_category")):
        if isinstance(value, list):
            return set().union(*map(keys, value))
        if not isinstance(value, dict):
            return set()
        return set(value).union(*(keys(part) for key, part in value.items() if key not in skipped))
    assert keys(json.loads(tool.ok("report", two[1], "--json"))) <= set(re.findall(r"`(\w+)`", one))
    assert keys(json.loads(tool.ok("report", *two, "--json"))) <= set(re.findall(r"`(\w+)`", both))
