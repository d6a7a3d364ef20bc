#!/usr/bin/env python3
"""How fast the analyser is: from the file to the Summary, frames while zooming, memory of the page.

    python bench/viewer.py [DIR...] [--rows N] [--megabytes N] [--output build/viewer.json]

Shows profiles in Debian's chromium with software drawing, and prints the times of each. By default
it makes two profiles, by repeating a small program on 16 x 1472 tiles: one with a trace of N rows,
one with a profile.pop of N MB. The time of a frame is the least of several, because other processes
may use the machine. Processor seconds are those of all processes of the browser. Memory is what the
page's process has for itself: without the browser's code, with the worker, before garbage is
collected and after it. Needs the packages that the tests of tests/python/web need.
"""

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
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

_KEYS = "wwwddsaswwdadawssdwwwwaaddssswdsadwdaws0"
_ROUNDS = 5

_VIEWS = ("insights", "memory", "tiles", "liveness", "program", "operations",
          "operations&layer=scope", "graph", "trace", "trace&mode=flat", "trace&mode=flame",
          "trace&mode=heavy", "source", "sql", "files")
_ACTIONS = {"liveness": "click", "program": "filter", "operations": "filter", "trace": "As table",
            "trace&mode=flat": "Save for Perfetto"}

_FRAMES = """async ([id, keys, rounds]) => {
    const canvas = document.getElementById(id), least = keys.map(() => Infinity);
    canvas.focus();
    for (let round = 0; round < rounds; ++round) {
        for (const [i, key] of keys.entries()) {
            canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            least[i] = Math.min(least[i], Number(canvas.dataset.frame));
        }
    }
    return least;
}"""

# ---- A profile of any size -----------------------------------------------------------------------

# The tables that grow with a program; for each column that refers to a table, that table.
_TABLES = {
    "programs": {"id": "programs", "parent": "programs", "end": "programs", "source": "sources",
                 "compute_set": "compute_sets"},
    "compute_sets": {"compute_set": "compute_sets", "source": "sources",
                     "shared_with": "compute_sets"},
    "sources": {"id": "sources"},
    "variables": {"id": "variables", "source": "sources", "first_step": "programs",
                  "end_step": "programs"},
    "liveness": {"program": "programs"},
    "vertices": {"compute_set": "compute_sets"},
    "trace": {"id": "trace", "program": "programs", "compute_set": "compute_sets",
              "cycles_base": "cycles"},
}
IPUS = 16


class Growing:
    """A profile.pop whose program is repeated, each time on the next IPU."""

    def __init__(self, database):
        self.database, self.copies = database, 1
        self.sizes = {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                      for table in _TABLES}
        self.sizes["trace"] -= 2  # steps of waiting and loading
        self.sizes["cycles"], = database.execute("SELECT sum(cycles) FROM trace WHERE id > 1"
                                                 ).fetchone()

    def _column(self, table, name, have):
        if name == "parent":
            return f"CASE WHEN parent < 0 THEN 0 ELSE parent + {have * self.sizes['programs']} END"
        if name == "ipu":
            return f"CASE WHEN ipu < 0 THEN ipu ELSE (ipu + {have}) % {IPUS} END"
        if name == "name":
            return f"'x{have}/' || name"
        counted = _TABLES[table].get(name)
        if counted is None:
            return f'"{name}"'
        more = have * self.sizes[counted]
        return f'CASE WHEN "{name}" < 0 THEN "{name}" ELSE "{name}" + {more} END'

    def to(self, copies):
        """Repeats the program until it is there so many times."""
        while self.copies < copies:
            have, more = self.copies, min(self.copies, copies - self.copies)
            for table, counts in _TABLES.items():
                names = [row[1] for row in self.database.execute(f"PRAGMA table_info({table})")]
                first = next(iter(counts))
                low, end = (1, 2) if table == "trace" else (-1, 0)
                self.database.execute(
                    f"INSERT INTO {table} SELECT "
                    f"{', '.join(self._column(table, name, have) for name in names)} FROM {table} "
                    f"WHERE {first} > {low} AND {first} < {more * self.sizes[counts[first]] + end}")
            self.copies += more
        self.database.execute('UPDATE programs SET "end" = ?, cycles = ? WHERE id = 0',
                              (copies * self.sizes["programs"], copies * self.sizes["cycles"]))
        for key, counted in (("cycles", "cycles"), ("num_steps", "programs"),
                             ("num_variables", "variables"), ("num_compute_sets", "compute_sets")):
            self.database.execute("UPDATE totals SET value = ? WHERE key = ?",
                                  (copies * self.sizes[counted], key))

    def megabytes(self):
        pages, = self.database.execute("PRAGMA page_count").fetchone()
        return pages * self.database.execute("PRAGMA page_size").fetchone()[0] / 1e6


def add_tiles(database):
    """The first IPU's memory on all of them."""
    tiles = database.execute("SELECT count(*) FROM memory_by_tile").fetchone()[0]
    names = [row[1] for row in database.execute("PRAGMA table_info(memory_by_tile)")]
    rest = ", ".join(names[2:])
    for ipu in range(1, IPUS):
        database.execute(f"INSERT INTO memory_by_tile SELECT tile + {ipu * tiles}, {ipu}, "
                         f"{rest} FROM memory_by_tile WHERE ipu = 0")
        database.execute(f"INSERT INTO vars_info SELECT tile + {ipu * tiles}, category, "
                         f"size_bytes, always_live FROM vars_info WHERE tile < {tiles}")
        database.execute("INSERT INTO ipus VALUES(?, ?, ?)", (ipu, ipu * tiles, tiles))


def make(folder, rows=0, megabytes=0):
    """A profile with so many rows in its trace, or of such a size."""
    folder.mkdir()
    (folder / "small.hlo").write_text(_PROGRAM)
    environment = {**os.environ, "POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'}
    tool = ROOT / "build/release/bin/tremula"
    subprocess.run([tool, "compile", "small.hlo", "-o", "x"], cwd=folder, env=environment,
                   check=True, capture_output=True)
    found, = folder.glob("tf_report__*")
    with sqlite3.connect(found / "profile.pop") as database:
        add_tiles(database)
        growing = Growing(database)
        if megabytes:
            # Rows become longer with their numbers, so that only half of the rest is foreseen.
            growing.to(256)
            while (left := megabytes - growing.megabytes()) > 0.01 * megabytes:
                growing.to(growing.copies + 1 + int(left / growing.megabytes() / 2
                                                    * growing.copies))
        else:
            growing.to(max(1, -(-rows // growing.sizes["trace"])))
    database.close()
    (found / "vars.capnp").unlink()  # rows of one program
    return found


# ---- Measuring -----------------------------------------------------------------------------------

def processes_below(root):
    """The ids of the processes that this one began, and of theirs."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
    found, todo = [], [root]
    while todo:
        one = todo.pop()
        below = [child for child, parent in parents.items() if parent == one]
        found += below
        todo += below
    return found


def processor_seconds():
    total = 0
    for one in processes_below(os.getpid()):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def private_megabytes(process):
    """What a process has for itself: its memory without the files, such as the browser's own code,
    that it shares with others."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{process}/status").read_text()
        return sum(int(line.split()[1]) for line in text.splitlines()
                   if line.startswith(("RssAnon", "RssShmem"))) * 1024 / 1e6
    return 0


class Memory(threading.Thread):
    """Looks every 20 ms how much memory the page's process has, the largest of the browser's."""

    def __init__(self):
        super().__init__(daemon=True)
        self.now = self.most = self.highest = 0.0
        self.done = threading.Event()
        self.start()

    def run(self):
        processes = []
        for turn in itertools.count():
            if turn % 50 == 0:
                processes = [one for one in processes_below(os.getpid())
                             if b"--type=renderer" in command_line(one)]
            self.now = max(map(private_megabytes, processes), default=0)
            self.most = max(self.most, self.now)
            self.highest = max(self.highest, self.now)
            if self.done.wait(0.02):
                return

    def taken(self):
        """The most since the last question."""
        most, self.most = max(self.most, self.now), 0
        return most


def command_line(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


class Watch:
    """Seconds of the clock and of processors since the object was made."""

    def __init__(self):
        self.begin, self.used = time.perf_counter(), processor_seconds()

    def __call__(self):
        return [time.perf_counter() - self.begin, processor_seconds() - self.used]


def settle():
    """Waits until a browser that has just started is idle."""
    used = processor_seconds()
    while True:
        time.sleep(0.4)
        before, used = used, processor_seconds()
        if used - before < 0.02:
            return


def show(page, folder, page_file, memory, result):
    """Opens a profile; a large one as chosen files, because a page inside a file is text."""
    from tremula.tool import view
    is_large = result["megabytes"] > 100
    page_file.write_text(view.page_text() if is_large else view.make_page([folder]),
                         encoding="utf-8")
    settle()
    watch = Watch()
    page.goto(page_file.as_uri())
    if is_large:
        page.wait_for_selector("#choose-files", state="attached")
        settle()
        watch = Watch()
        page.locator("#choose-files").set_input_files(
            sorted(str(file) for file in folder.iterdir()))
    page.wait_for_selector("main[data-view=summary]", timeout=600_000)
    result["summary_seconds"] = watch()
    result["view_megabytes"] = {"summary": memory.taken()}


def without_garbage(page, memory):
    """The MB of a page after its garbage is collected."""
    for one in (page, *page.workers):
        one.evaluate("gc()")
    page.wait_for_timeout(500)
    return memory.now


def longest_task(browser):
    """Milliseconds of processors of the longest task of the page's thread since the last question:
    the page does not answer while a task lasts."""
    time.sleep(0.3)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    browser.start_tracing(categories=["toplevel"])
    pages = {(one["pid"], one["tid"]) for one in events
             if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"}
    return max((one.get("tdur", 0) / 1e3 for one in events
                if one["ph"] == "X" and (one["pid"], one["tid"]) in pages), default=0)


def show_view(page, link):
    page.evaluate("""link => {
        document.querySelector("main").dataset.drawn = "";
        location.hash = `v=${link}`;
    }""", link)
    page.wait_for_selector("main[data-drawn]:not([data-drawn=''])")


def act(page, action):
    """Does what a user does in a view, and waits for the end."""
    if action == "click":
        page.locator("main canvas").first.click(position={"x": 500, "y": 60})
    elif action == "filter":
        page.locator("main input.find").last.fill("12")
    else:
        page.get_by_role("button", name=action).first.click()
    page.wait_for_timeout(500)
    while page.locator(".progress, button:text-is('Cancel')").locator("visible=true").count():
        page.wait_for_timeout(100)


def measure(playwright, folder, page_file):
    browser = playwright.chromium.launch(
        executable_path=shutil.which("chromium"),
        args=["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc"])
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    memory = Memory()
    page.set_default_timeout(600_000)
    browser.start_tracing(categories=["toplevel"])
    with contextlib.closing(sqlite3.connect(folder / "profile.pop")) as database:
        rows, = database.execute("SELECT count(*) FROM trace").fetchone()
    result = {"profile": folder.name, "trace_rows": rows,
              "megabytes": (folder / "profile.pop").stat().st_size / 1e6}
    show(page, folder, page_file, memory, result)
    result["longest_task_ms"] = {"summary": longest_task(browser)}
    result["view_seconds"] = {}
    for link in _VIEWS:
        watch = Watch()
        show_view(page, link)
        result["view_seconds"][link] = watch()
        result["longest_task_ms"][link] = longest_task(browser)
        result["view_megabytes"][link] = memory.taken()
    result["page_megabytes"] = [memory.highest, without_garbage(page, memory)]
    for link, action in _ACTIONS.items():
        show_view(page, link)
        longest_task(browser)
        act(page, action)
        result["longest_task_ms"][f"{link}, {action}"] = longest_task(browser)
        result["view_megabytes"][f"{link}, {action}"] = memory.taken()
    result["page_megabytes"].append(memory.highest)
    memory.done.set()
    for name, view_name, chart in (("memory", "memory", "memory-chart"),
                                   ("trace", "trace&mode=flat", "trace-chart")):
        watch = Watch()
        page.evaluate("link => { location.hash = link; }", f"v={view_name}")
        page.wait_for_selector(f"#{chart}")
        result[f"{name}_seconds"] = watch()
        times = sorted(page.evaluate(_FRAMES, [chart, list(_KEYS), _ROUNDS]))
        result[f"{name}_frame_ms"] = times[len(times) // 2]
        result[f"{name}_frame_ms_95"] = times[int(0.95 * len(times))]
    browser.close()
    return result


def report(one):
    def seconds(pair):
        return f"{pair[0]:.2f} s ({pair[1]:.2f} s of processors)"
    most, left, in_use = one["page_megabytes"]
    print(f"{one['profile']}: {one['megabytes']:.1f} MB, {one['trace_rows']} rows in the trace; "
          f"Summary after {seconds(one['summary_seconds'])}; the page had at most {most:.0f} MB "
          f"for itself, {most / one['megabytes']:.2f} times the profile, after all views, has "
          f"{left:.0f} MB then without garbage, and had at most {in_use:.0f} MB in use")
    for name in ("memory", "trace"):
        print(f"  {name}: shown after {seconds(one[f'{name}_seconds'])}; a frame takes "
              f"{one[f'{name}_frame_ms']:.1f} ms of script, 95 % of them at most "
              f"{one[f'{name}_frame_ms_95']:.1f} ms")
    views = ", ".join(f"{view} {used:.1f} s" for view, (_, used) in one["view_seconds"].items()
                      if used > 1)
    print(f"  views that take more than a second of processors: {views or 'none'}")
    memory = ", ".join(f"{view} {most:.0f}" for view, most in one["view_megabytes"].items())
    print(f"  the most MB of the page meanwhile: {memory}")
    tasks = ", ".join(f"{what} {time:.0f} ms" for what, time in one["longest_task_ms"].items()
                      if time > 50)
    print("  tasks of the page's thread that take more than 50 ms of a processor: "
          f"{tasks or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=100_000, help="of the trace of the first")
    parser.add_argument("--megabytes", type=int, default=500, help="of the second; 0: none")
    parser.add_argument("--output", default=ROOT / "build" / "viewer.json", type=pathlib.Path)
    arguments = parser.parse_args()
    if importlib.util.find_spec("playwright") is None or shutil.which("chromium") is None:
        print("nothing is measured: playwright and chromium are needed")
        return
    from playwright.sync_api import sync_playwright
    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = pathlib.Path(folder)
        profiles = arguments.folders or [make(folder / "rows", rows=arguments.rows)]
        if arguments.megabytes and not arguments.folders:
            profiles.append(make(folder / "size", megabytes=arguments.megabytes))
        for one in profiles:
            found.append(measure(playwright, one, folder / "page.html"))
            report(found[-1])
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps({"load_average": os.getloadavg()[0], "profiles": found},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
