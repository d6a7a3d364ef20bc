"""Every measured limit of the host and the passes is a row of
src/base/limits.def, with the CPU and the day that it was measured on."""
import datetime
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/base/limits.def"
ROOMS = "src/host", "src/passes"
ROW = re.compile(r'^LIMIT\((\w+), ([^,]+), (\w+), "([^"]+)",\s+"([^"]+)"\)', re.MULTILINE)
CPU = re.compile(r"^ \*   ([A-Z0-9]+) ", re.MULTILINE)
# A constant of its own: an enumerator with a value, or a macro. MAX_ is the size of an array.
STRAY = re.compile(r"(?:\b(?:enum \{ |, )|^\s+|#define )"
                   r"((?:LEAST|MOST|LONG|SHORT|MANY|FEW|LARGEST|SMALLEST)_[A-Z0-9_]+)"
                   r"(?: = | +[\d(])", re.MULTILINE)


def sources():
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*"))
            if path.suffix in (".c", ".h", ".def")]


def test_rows_are_complete():
    text = TABLE.read_text()
    rows, cpus = ROW.findall(text), CPU.findall(text)
    assert len(rows) == len(re.findall(r"^LIMIT\(", text, re.MULTILINE)) >= 50
    for name, _, cpu, day, meaning in rows:
        assert "LEAST" in name or "MOST" in name, name
        assert cpu in cpus, f"{name}: {cpu} is not in the list of CPUs"
        assert datetime.date.fromisoformat(day) and meaning
    assert len({row[0] for row in rows}) == len(rows)


def test_limits_are_used():
    used = {name for path in sources() for name in re.findall(r"\bTRM_(\w+)", path.read_text())}
    assert not [row[0] for row in ROW.findall(TABLE.read_text()) if row[0] not in used]


def test_no_limit_strays():
    strays = [f"{path.relative_to(ROOT)}: {name}" for path in sources()
              for name in STRAY.findall(path.read_text())]
    assert not strays, "\n".join(["these belong in src/base/limits.def:"] + strays)


def test_strays_are_found():
    for text in ("enum { LEAST_ROWS = 32 };", "enum {\n  MOST_ROWS = 1,\n", "#define MOST_X 1e6\n",
                 "enum { A = 1, LONG_SUM = 4 };"):
        assert STRAY.search(text), text
    assert not STRAY.search("enum { MAX_ROWS = 8 };")
