#!/usr/bin/env python3
"""How fast the analyser is: from the file to the Summary, frames while zooming, memory of the page.

    python bench/viewer.py [DIR...] [--rows N] [--output build/viewer.json]

Shows profiles (by default one that this script makes: the trace of a small program, N rows long, on
16 x 1472 tiles) in Debian's chromium with software drawing, and prints the medians. Needs what the
tests of tests/python/web need.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

_PROGRAM = """HloModule small
ENTRY main {
  x = f32[64,256] parameter(0)
  w = f32[256,512] parameter(1)
  h = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[64,512] tanh(h)
}
"""

_FRAMES = """async ([id, frames]) => {
    const canvas = document.getElementById(id), times = [];
    canvas.focus();
    const keys = ["w", "w", "w", "d", "d", "s", "a", "s", "w", "0"];
    for (let i = 0; i < frames; ++i) {
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: keys[i % keys.length] }));
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        times.push(Number(canvas.dataset.frame));
    }
    return times;
}"""


def make(folder, rows, ipus):
    """A profile whose trace and tiles are many: a small program's, repeated."""
    (folder / "small.hlo").write_text(_PROGRAM)
    environment = {**os.environ, "POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'}
    tool = ROOT / "build/release/bin/tremula"
    subprocess.run([tool, "compile", "small.hlo", "-o", "x"], cwd=folder, env=environment,
                   check=True, capture_output=True)
    found, = folder.glob("tf_report__*")
    with sqlite3.connect(found / "profile.pop") as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(trace)")]
        kept = ", ".join(names[1:]).replace("cycles_base", "cycles_base + {n} * {length}")
        count, length = database.execute("SELECT count(*), sum(cycles) FROM trace WHERE id > 1"
                                         ).fetchone()
        for n in range(1, rows // count):
            database.execute(
                f"INSERT INTO trace SELECT id + {n * count}, {kept.format(n=n, length=length)} "
                f"FROM trace WHERE id > 1 AND id < {count + 2}")
        tiles = database.execute("SELECT count(*) FROM memory_by_tile").fetchone()[0]
        rest = ", ".join(row[1] for row in database.execute("PRAGMA table_info(memory_by_tile)"))
        rest = rest.split(", ", 2)[2]
        for ipu in range(1, ipus):
            database.execute(f"INSERT INTO memory_by_tile SELECT tile + {ipu * tiles}, {ipu}, "
                             f"{rest} FROM memory_by_tile WHERE ipu = 0")
            database.execute(f"INSERT INTO vars_info SELECT tile + {ipu * tiles}, category, "
                             f"size_bytes, always_live FROM vars_info WHERE tile < {tiles}")
            database.execute("INSERT INTO ipus VALUES(?, ?, ?)", (ipu, ipu * tiles, tiles))
    database.close()
    return found


def measure(playwright, folder, page_file):
    from tremula.tool import view
    begin = time.perf_counter()
    page_file.write_text(view.make_page([folder]), encoding="utf-8")
    made = time.perf_counter() - begin
    browser = playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    begin = time.perf_counter()
    page.goto(page_file.as_uri())
    page.wait_for_selector("main[data-view=summary]", timeout=300_000)
    result = {"profile": folder.name, "bytes": (folder / "profile.pop").stat().st_size,
              "page_bytes": page_file.stat().st_size, "making_seconds": made,
              "summary_seconds": time.perf_counter() - begin}
    for name, view_name, chart in (("memory", "memory", "memory-chart"),
                                   ("trace", "trace&mode=flat", "trace-chart")):
        begin = time.perf_counter()
        page.evaluate("link => { location.hash = link; }", f"v={view_name}")
        page.wait_for_selector(f"#{chart}", timeout=300_000)
        result[f"{name}_seconds"] = time.perf_counter() - begin
        times = sorted(page.evaluate(_FRAMES, [chart, 100]))
        result[f"{name}_frame_ms"] = times[len(times) // 2]
        result[f"{name}_frame_ms_95"] = times[int(0.95 * len(times))]
    browser.close()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=100_000, help="of the trace that is made")
    parser.add_argument("--output", default=ROOT / "build" / "viewer.json", type=pathlib.Path)
    arguments = parser.parse_args()
    if importlib.util.find_spec("playwright") is None or shutil.which("chromium") is None:
        print("nothing is measured: playwright and chromium are needed")
        return
    from playwright.sync_api import sync_playwright
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = pathlib.Path(folder)
        profiles = arguments.folders or [make(folder, arguments.rows, 16)]
        found = [measure(playwright, one, folder / "page.html") for one in profiles]
    for one in found:
        print(f"{one['profile']}: {one['bytes'] / 1e6:.1f} MB, page "
              f"{one['page_bytes'] / 1e6:.1f} MB made in {one['making_seconds']:.2f} s; "
              f"Summary after {one['summary_seconds']:.2f} s")
        for name in ("memory", "trace"):
            print(f"  {name}: shown after {one[f'{name}_seconds']:.2f} s; a frame takes "
                  f"{one[f'{name}_frame_ms']:.1f} ms of script, 95 % of them at most "
                  f"{one[f'{name}_frame_ms_95']:.1f} ms")
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps({"load_average": os.getloadavg()[0], "profiles": found},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
