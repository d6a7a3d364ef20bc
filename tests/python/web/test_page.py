"""What the page is made of: vendored files, sizes, types, and readers against Python's."""

import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import pva
from analyser import ROOT, environment, tremula
from pva import debug, lowered

WEB = ROOT / "web"
SOURCES = sorted((WEB / "src").rglob("*.js"))


def test_vendored_files_are_those_of_the_table():
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")]
            for line in (WEB / "vendor/README.md").read_text(encoding="utf-8").splitlines()
            if line.startswith("| ") and "SHA-256" not in line]
    there = {path.name for path in (WEB / "vendor").iterdir()} - {"README.md"}
    assert {row[0] for row in rows} == there
    for name, _, version, licence, origin, wanted in rows:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version) and licence and origin.startswith("https://")
        assert hashlib.sha256((WEB / "vendor" / name).read_bytes()).hexdigest() == wanted, name


def _code(text):
    """A source without its comments, whose types TypeScript would have in its syntax."""
    text = re.sub(r"/\*\*.*?\*/ ?", "", text, flags=re.S)
    return re.sub(r"\n\s*\n", "\n", re.sub(r"(^|\s)// .*$", r"\1", text, flags=re.M))


def test_sizes_and_what_no_source_may_do():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, path
        assert text.startswith("// "), path
        for wrong in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                      "new Function", "localStorage", "XMLHttpRequest", "sendBeacon"):
            assert wrong not in text, (path, wrong)
    assert [path for path in SOURCES if "fetch(" in path.read_text(encoding="utf-8")] == \
        [WEB / "src/base/opening.js"]
    code = sum(len(_code(path.read_text(encoding="utf-8")).encode()) for path in SOURCES)
    assert 0 < code < 400_000


def test_the_page_has_no_network(viewer):
    text = viewer.read_text(encoding="utf-8")
    assert len(text.encode()) < 2_000_000
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == parts["connect-src"] == "'none'"
    assert "unsafe-inline" not in policy and "'unsafe-eval'" not in policy
    assert not re.search(r'(src|href)="(https?:)?//', text)


def test_types():
    compiler = ROOT / "build/web/node_modules/.bin/tsc"
    if not compiler.exists():
        pytest.skip("typescript is not installed (make test installs it)")
    done = subprocess.run([compiler, "-p", WEB, "--noUnusedLocals"], text=True, check=False,
                          capture_output=True, timeout=600)
    assert done.returncode == 0, done.stdout


def _lab(colour, matrix):
    """CIE Lab of '#rrggbb' as somebody sees it whose eyes mix light by a matrix."""
    light = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in light]
    seen = np.clip(np.array(matrix) @ light, 0, 1)
    xyz = np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]]) @ seen
    xyz = xyz / (.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Deuteranopia after Machado, Oliveira and Fernandes (2009), and no impairment.
@pytest.mark.parametrize("matrix", [
    ((.367322, .860646, -.227968), (.280085, .672501, .047413), (-.01182, .04294, .968881)),
    ((1, 0, 0), (0, 1, 0), (0, 0, 1))])
def test_colours_of_kinds_differ(matrix):
    text = (WEB / "style.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--([A-Z]): (#\w{6})", text[text.index(begin):].split("}")[0]))
              for begin in (":root {", ':root[data-theme="dark"] {', "@media (prefers-color")]
    assert themes[1] == themes[2]
    for theme in (themes[0], {**themes[0], **themes[1]}):
        assert len(theme) == 10
        for one, other in itertools.combinations(theme, 2):
            far = np.linalg.norm(_lab(theme[one], matrix) - _lab(theme[other], matrix))
            assert far > 12, (one, other, far)


# ---- Readers ------------------------------------------------------------------------------------

_READ = """
import {{ readFileSync }} from "node:fs";
import {{ readVariables }} from "{web}/src/data/capnp.js";
import {{ readDebug }} from "{web}/src/data/cbor.js";
import {{ memberText, readArchive }} from "{web}/src/data/archive.js";
for (const folder of process.argv.slice(2)) {{
  const file = (name) => new Uint8Array(readFileSync(`${{folder}}/${{name}}`));
  const v = readVariables(file("vars.capnp"));
  const archive = file("archive.a"), members = readArchive(archive);
  console.log(JSON.stringify({{
    runs: [...v.runStart].slice(0, -1).map((start, d) => Array.from(
      {{ length: v.runStart[d + 1] - start }}, (_, i) =>
        [v.firstTile[start + i], v.numTiles[start + i], v.bytes[start + i]])),
    variables: v.names.map((name, i) => [name, v.distribution[i], v.firstStep[i], v.endStep[i],
      v.category[i], v.alwaysLive[i] === 1]),
    debug: readDebug(file("debug.cbor")).slice(1).map((one) => [one.get("id"), one.get("name")]),
    members: [...members.keys()], tile: memberText(archive, members.get("tile5.mem")),
  }}));
}}
"""


def node(script, *arguments, timeout=600):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    done = subprocess.run(["node", script, *map(str, arguments)], text=True, capture_output=True,
                          timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_rounds_to_zero_has_a_plus(tmp_path):
    """As `tremula plan` writes it."""
    (tmp_path / "signs.mjs").write_text(
        f'import {{ barText, signed }} from "{WEB}/src/base/format.js";\n'
        "console.log(JSON.stringify([[-0.4, 0.4, -0.6, 2.5, -2.5].map((one) => signed(one)),"
        "[-0.04, 0, -0.05, 12.34].map((one) => signed(one, 1)), barText(1000, 998, 1152),"
        "barText(0, 0, 0)]));", encoding="utf-8")
    assert node(tmp_path / "signs.mjs") == [[
        ["+0", "+0", "\u22121", "+3", "\u22123"], ["+0.0", "+0.0", "\u22120.1", "+12.3"],
        "+0 to +15 %", "+0 to +0 %"]]


@pytest.fixture
def folder(profiles, tmp_path):
    one = tmp_path / "profile"
    shutil.copytree(profiles["pipeline"], one)
    shutil.copy(profiles["pipeline"].parent / "debug.cbor", one)
    return one


def _random_program(source):
    """A chain of layers with random sizes, scopes and names."""
    rows, wide = source.choice([1, 16, 100]), source.choice([1, 32, 300])
    lines = [f"HloModule p{source.randrange(9)}", "", "ENTRY main {",
             f"  v0 = f32[{rows},{wide}] parameter(0)"]
    for number in range(1, source.randrange(2, 9)):
        scope = "/".join(source.choice(["a", "stage_1", "\u00e9", "x" * 300])
                         for _ in range(source.randrange(4)))
        named = (f', metadata={{op_name="{scope}/op{number}" source_file="{scope[:9]}.py" '
                 f'source_line={number}}}' if source.randrange(3) else "")
        if source.randrange(2):
            op = source.choice(["tanh", "negate", "exponential"])
            lines.append(f"  v{number} = f32[{rows},{wide}] {op}(v{number - 1}){named}")
            continue
        before, wide = wide, source.choice([1, 32, 300])
        weights = sum("parameter" in line for line in lines)
        lines += [f"  w{number} = f32[{before},{wide}] parameter({weights})",
                  f"  v{number} = f32[{rows},{wide}] dot(v{number - 1}, w{number}), "
                  f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{named}"]
    at = max(i for i, line in enumerate(lines) if line.startswith("  v"))
    lines[at] = "  ROOT" + lines[at][1:]
    return "\n".join([*lines, "}", ""])


def _compare(found, folder):
    distributions, variables = lowered.read(str(folder / "vars.capnp"))
    assert found["runs"] == [[list(run) for run in one] for one in distributions]
    assert found["variables"] == [[one["name"], one["distribution"], one["firstStep"],
                                   one["endStep"], one["category"], one["alwaysLive"]]
                                  for one in variables]
    maps = debug.read_file(str(folder / "debug.cbor"))
    assert found["debug"] == [[one["id"], one["name"]] for one in maps[1:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiles = pva.openReport(str(folder / "profile.pop")).compilation.target.numTiles
    assert found["members"] == [f"tile{tile}.mem" for tile in range(tiles)]
    assert found["tile"].splitlines()[1].split() == ["tile", "5"]


def test_readers_read_what_python_reads(folder, tmp_path):
    (tmp_path / "read.mjs").write_text(_READ.format(web=WEB), encoding="utf-8")
    found, = node(tmp_path / "read.mjs", folder)
    _compare(found, folder)


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.long)])
def test_readers_read_random_programs(tmp_path, count):
    (tmp_path / "read.mjs").write_text(_READ.format(web=WEB), encoding="utf-8")
    source, folders = random.Random(36), []
    for number in range(count):
        own = tmp_path / str(number)
        own.mkdir()
        (own / "program.hlo").write_text(_random_program(source), encoding="utf-8")
        tremula("compile", "program.hlo", "-o", "x", folder=own,
                POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}')
        found, = own.glob("tf_report__*")
        (own / "debug.cbor").rename(found / "debug.cbor")
        folders.append(found)
    for found, one in zip(node(tmp_path / "read.mjs", *folders), folders, strict=True):
        _compare(found, one)


_HEAVY = """
import {{ byName, leftHeavy }} from "{web}/src/data/sums.js";
const c = {{ cycles: [0, 0, 5, 100, 3, 900], cycles_overlapped: [0, 0, 0, 0, 0, 0],
             program: [-1, -2, 0, 1, 0, 0], ipu: [-1, -1, 0, -1, 0, 1] }};
const names = {{ ids: [0, 1], count: 2, text: (id) => ["a/copy", "b/copy"][id] }};
const {{ total, levels }} = leftHeavy(byName(c, names, "0"), new Map(), (parts) => parts.slice(1));
console.log(JSON.stringify([total, ...levels[0].row]));
let state = 1;
const random = (most) => Math.floor(((state = (state * 48271) % 2147483647) / 2147483647) * most);
const groups = Array.from({{ length: 2000 }}, (_, row) => ({{
  cycles: 1 + random(9), rows: 1, row, most: 1,
  text: Array.from({{ length: 1 + random(5) }}, () => `p${{random(12)}}`).join("/") }}));
const labels = new Map(Array.from({{ length: 200 }}, (_, i) => [`other ${{i}}`, i]));
const parts = [...(leftHeavy(groups, labels), labels.keys())];
const found = leftHeavy(groups, labels).levels.map((level) =>
  Array.from(level.begin, (begin, i) =>
    [begin, level.end[i] - begin, parts[level.label[i]], level.row[i]]));
console.log(JSON.stringify([groups.map(({{ text, cycles, row }}) => [text, cycles, row]), found]));
"""


def _merged(groups, depth=0, begin=0):
    """Boxes of groups by level, made once more in another way."""
    found, children = {}, {}
    for group in groups:
        if len(group[0]) > depth:
            children.setdefault(group[0][depth], []).append(group)
    for name, inner in sorted(children.items(), key=lambda one: -sum(two[1] for two in one[1])):
        cycles = sum(two[1] for two in inner)
        own = [two for two in inner if len(two[0]) == depth + 1]
        leaf = len(own) == len(inner)
        found.setdefault(depth, []).append([begin, cycles, name, own[0][2] if leaf else -1])
        for level, boxes in _merged(inner, depth + 1, begin).items():
            found.setdefault(level, []).extend(boxes)
        begin += cycles
    return found


def test_merged_rows(tmp_path):
    """They have the kind of the longest; each is as wide as what is in it, and has its own name."""
    (tmp_path / "heavy.mjs").write_text(_HEAVY.format(web=WEB), encoding="utf-8")
    longest, (groups, found) = node(tmp_path / "heavy.mjs")
    assert longest == [108, 3]
    wanted = _merged([(text.split("/"), cycles, row) for text, cycles, row in groups])
    assert found == [wanted[level] for level in range(len(wanted))]


_PIECES = """
import {{ Pieces }} from "{web}/src/data/pieces.js";
const whole = Uint8Array.from({{ length: 1000 }}, (_, i) => (i * 7) % 251);
let reads = 0;
const file = new Pieces(whole.length, (from, to) => (++reads, whole.slice(from, to)), 8);
const same = (from, to) => String(file.subarray(from, to)) === String(whole.subarray(from, to));
const good = [];
for (let from = 0; from < 1000; from += 3)
  for (const size of [1, 8, 9, 100]) good.push(same(from, Math.min(1000, from + size)));
const before = reads;
good.push(same(992, 1000), same(992, 2000));
console.log(JSON.stringify([good.every(Boolean), file.kept.size, reads - before]));
"""


def test_a_large_file_in_pieces(tmp_path):
    """Any range has its bytes; of all pieces the last ones are kept."""
    (tmp_path / "pieces.mjs").write_text(_PIECES.format(web=WEB), encoding="utf-8")
    assert node(tmp_path / "pieces.mjs") == [[True, 24, 0]]


_MARKS = """
import libpvti as pvti
with pvti.Tracepoint(pvti.traceFramework, "outside"):
    with pvti.Tracepoint(pvti.traceDrivers, "inside"):
        pvti.Tracepoint.event(pvti.traceDrivers, "now")
loss = pvti.Graph("Loss", "nats").addSeries("Training")
sizes = pvti.HeatmapDouble("Sizes", [0, 1, 10], "MB")
for value in (3.0, 2.0, 0.5):
    loss.add(value)
    sizes.add([value, 2 * value])
"""


def test_readers_refuse_damage(folder):
    """Random damage gives values or an Error with a sentence, and an end; scripts/nightly.sh asks
    for more rounds."""
    subprocess.run([sys.executable, "-c", _MARKS], check=True, timeout=600, cwd=folder,
                   env=environment(PVTI_OPTIONS='{"enable":"true"}'))
    rounds = int(os.environ.get("TREMULA_PAGE_ROUNDS", "400"))
    seed = random.Random(5 + rounds).randrange(1 << 31)
    found, = node(pathlib.Path(__file__).with_name("damage.mjs"), WEB, folder, seed, rounds,
                 timeout=600 + rounds // 10)
    assert found["inputs"] == 5 * rounds + rounds // 20 and found["refused"] > rounds


_ROWS = """
import {{ sorted, windowOf }} from "{web}/src/base/arrange.js";
const rows = Array.from({{ length: 30000 }}, (_, i) => [i, (i * 7919) % 97]);
const work = sorted(rows, {{ value: (row) => row[1] }}, -1);
let pauses = 0, part;
while (!(part = work.next()).done) ++pauses;
const order = part.value.map((row) => row[0]);
const wanted = [...rows].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map((row) => row[0]);
const ends = [1000, 700000, 5000000].map((count) => {{
  const high = (part) => part.above + part.below + 24 * (part.last - part.first);
  const tall = high(windowOf(count, 480, 0)), end = windowOf(count, 480, tall - 480);
  const first = end.first + Math.ceil((tall - 480 - end.above) / 24);
  return [windowOf(count, 480, 0).first, end.last, first, tall, high(end)];
}});
console.log(JSON.stringify([String(order) === String(wanted), pauses > 20, ...ends]));
"""


def test_rows_of_long_tables(tmp_path):
    """Sorting has pauses; the scroll bar reaches the last of millions of rows, and no browser has
    to draw more than 16 million pixels."""
    (tmp_path / "rows.mjs").write_text(_ROWS.format(web=WEB), encoding="utf-8")
    (order, pauses, *ends), = node(tmp_path / "rows.mjs")
    assert order and pauses
    assert ends == [[0, count, count - 20, min(24 * count, 16e6), min(24 * count, 16e6)]
                    for count in (1000, 700000, 5000000)]


_TEXTS = """
import {{ Grown }} from "{web}/src/data/grown.js";
import {{ TextsMaker }} from "{web}/src/data/texts.js";
const texts = Array.from({{ length: 9000 }}, (_, i) =>
  [`net/layer${{i % 4001}}/Über`, "", `${{"x".repeat(i % 700)}}/${{i % 3}}`][i % 3]);
const made = new TextsMaker(), encoder = new TextEncoder();
for (const text of texts) {{
  const bytes = encoder.encode(`<${{text}}>`);
  made.push(bytes, 1, bytes.length - 2);
}}
const found = made.texts();
const numbers = [1, -128, NaN, 128, -40000, 2 ** 31, 0.5], kinds = [];
for (let count = 1; count <= numbers.length; ++count) {{
  const grown = new Grown(true);
  for (let i = 0; i < 2000; ++i) grown.push(numbers[i % count]);
  grown.raise(numbers[count - 1] + 1);
  const all = grown.whole();
  const good = all.every((one, i) => i === 1999 ||
    Object.is(one, numbers[i % count]) || Number.isNaN(numbers[count - 1]));
  kinds.push([all.constructor.name, all.length, good]);
}}
console.log(JSON.stringify([texts.every((text, i) => found.at(i) === text),
                            found.count === new Set(texts).size, found.bytes.length, kinds]));
"""


def test_columns_that_grow(tmp_path):
    """Texts come back as they were, in less room than they have; numbers are as wide as needed."""
    (tmp_path / "texts.mjs").write_text(_TEXTS.format(web=WEB), encoding="utf-8")
    (same, once, room, kinds), = node(tmp_path / "texts.mjs")
    assert same and once and room < 1_500_000
    assert [kind for kind, _, _ in kinds] == \
        ["Int8Array"] * 2 + ["Float64Array"] * 5
    assert all(length == 2000 and good for _, length, good in kinds)
