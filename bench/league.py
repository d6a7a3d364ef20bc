#!/usr/bin/env python3
"""Tremula in its peers' league: the same networks in JAX, PyTorch, TensorFlow, XLA, ONNX Runtime
and OpenVINO, in turns, on the same cores.

    python bench/league.py [--rows NAME[,NAME]...] [--peers NAME[,NAME]...] [--threads N[,N]...]

`make bench-league` makes an environment for each peer, and runs this. Prints a table and writes it
into bench/results.md (--output), with the rows that build/league.json (--record) has from before.

    python bench/league.py --before DIR [--rows ...] [--threads ...]

Tremula beside Tremula as it was in another checkout, which `cmake --build --preset release` has
built. Prints a table and writes nothing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from comparison import machine  # noqa: E402
from comparison.league import rows  # noqa: E402

PEERS = {"tremula": "jax", "jax": "jax", "torch": "torch", "onnxruntime": "onnx",
         "openvino": "onnx", "tf": "tf", "xla": "tf"}  # and the environment of each
BEFORE = "before"  # Tremula of another checkout
TITLES = {"tremula": "Tremula", "jax": "JAX", "torch": "PyTorch", "onnxruntime": "ONNX Runtime",
          "openvino": "OpenVINO", "tf": "TensorFlow", "xla": "XLA by TensorFlow"}
LOSS = 1 / 1.1
SLOW = 1.4  # times the least: a call of the slower of two speeds
MOST_SLOW = 0.1  # the share of such calls that the page names
MOST_SECONDS = 900  # for one answer of a peer
REST = 0.5  # seconds before a turn: threads of the peer before it wait for work without sleeping


class Peer:
    """One row in one peer's process."""

    def __init__(self, name, row, threads, python, more):
        environment = {key: value for key, value in os.environ.items()
                       if key != "PYTHONPATH" or PEERS.get(name, "jax") == "jax"} | more
        script = ROOT / "bench/comparison/league/peer.py"
        self.name = name
        module = "tremula" if name == BEFORE else name
        self._printed = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            [python, script, module, row, str(threads)], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed)
        self.start = self._answer()
        self.seconds = []

    def _answer(self):
        """The answer of the process, or the reason that there is none: it has died, or takes too
        long."""
        late = threading.Event()

        def give_up():
            late.set()
            self._process.kill()

        limit = threading.Timer(MOST_SECONDS, give_up)
        limit.start()
        line = self._process.stdout.readline()
        limit.cancel()
        if line:
            return json.loads(line)
        code = self._process.wait()
        why = (f"no answer in {MOST_SECONDS} s" if late.is_set() else
               f"the process ended by signal {-code}" if code < 0 else
               f"the process ended with code {code}")
        self._printed.seek(0)
        lines = [one.strip() for one in self._printed if one.strip()]
        return {"error": f"{why}: {lines[-1][:200]}" if lines else why}

    def run(self, calls):
        if "error" in self.start:
            return
        try:
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has died: _answer says how
        answer = self._answer()
        if "error" in answer:
            self.start = answer
        self.seconds += answer.get("seconds", [])

    def end(self):
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.wait()
        self._printed.close()


def measure(row, names, threads, pythons, seconds, environments=None):
    """{peer: its record}. The peers run in turns, each for `seconds`; `environments`: more
    variables for some peers."""
    more = environments or {}
    peers = [Peer(name, row.name, threads, pythons[PEERS.get(name, "jax")], more.get(name, {}))
             for name in names]
    try:
        for peer in peers:
            peer.run(1)
        calls = {peer.name: max(1, min(2000, int(
            0.3 / (row.rest + max(1e-6, min(peer.seconds, default=1)))))) for peer in peers}
        begun = time.monotonic()
        rounds = 0
        while rounds < 3 or (time.monotonic() - begun < seconds * len(peers) and rounds < 15):
            for peer in peers:
                time.sleep(REST)
                peer.run(calls[peer.name])
            rounds += 1
    finally:
        for peer in peers:
            peer.end()
    found = {}
    for peer in peers:
        entry = dict(peer.start)
        if "error" not in entry:
            least = min(peer.seconds)
            entry.update(min=least, median=statistics.median(peer.seconds),
                         slow=statistics.mean(one > SLOW * least for one in peer.seconds))
        found[peer.name] = entry
    return found


def check(found):
    """Marks peers whose result differs."""
    right = found.get("jax", found.get(BEFORE, found.get("tremula", {}))).get("digest")
    for entry in found.values():
        if right is not None and "digest" in entry:
            entry["differs"] = abs(entry["digest"] - right) > 0.02 * abs(right) + 1e-6


def milliseconds(seconds):
    value = 1e3 * seconds
    return f"{value:.3f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table_line(title, threads, found):
    """Ratio first: the best peer's least time over ours, in bold where we lose."""
    ours = found.get("tremula", {})
    others = {name: entry for name, entry in found.items() if "min" in entry and name != "tremula"}
    best = min(others, key=lambda name: others[name]["min"], default=None)
    ratio = others[best]["min"] / ours["min"] if best and "min" in ours else None
    text = "-" if ratio is None else f"{ratio:.2f}" if ratio >= LOSS else f"**{ratio:.2f}**"

    def cell(entry):
        if "min" not in entry:
            return "-"
        mark = " (another result)" if entry.get("differs") else ""
        return f"{milliseconds(entry['min'])} / {milliseconds(entry['median'])}{mark}"

    def start(entry):
        return f"{entry['prepare'] + entry['first']:.2f} s, {entry['memory']:.0f} MB" if (
            "min" in entry) else "-"

    cells = [text, title, str(threads), *(cell(found.get(name, {})) for name in TITLES),
             start(ours), start(others[best]) if best else "-"]
    return "| " + " | ".join(cells) + " |"


HEAD = """# Results

`make bench-league` writes this page. The first column is the least time of the best peer over that
of Tremula: above 1, Tremula is faster; **bold** where a peer is faster by more than a tenth. Cells
are the least and the median milliseconds of a call. All peers compute in float32 (Tremula in
float16 where the row says so), in turns, each held to the same cores. The last two columns are the
time until the first result and the memory that it took, of Tremula and of the best peer. A dash:
the peer has no such thing, or it failed, which is said below the table.

"""
_NO_TRAINING = "no training"


def failures(where):
    """Lines about the failures and their reasons."""
    return [f"- {TITLES[name]}, {key.split()[0]}, threads {key.split()[1]}: {entry['error']}"
            for key, found in where["rows"].items() for name, entry in found.items()
            if "error" in entry and _NO_TRAINING not in entry["error"]]


def slower_with_threads(where):
    """Lines about the rows that take Tremula longer, by more than a tenth, on more threads."""
    times = {}
    for key, found in where["rows"].items():
        name, threads = key.split()
        if "min" in found.get("tremula", {}):
            times.setdefault(name, []).append((int(threads), found["tremula"]["min"]))
    lines = []
    for name, curve in times.items():
        for threads, seconds in sorted(curve):
            best = min((one for one in curve if one[0] < threads), key=lambda one: one[1],
                       default=None)
            if best and seconds * LOSS > best[1]:
                lines.append(f"- {name}: {milliseconds(seconds)} ms with {threads} threads, "
                             f"{milliseconds(best[1])} with {best[0]}")
    return lines


def two_speeds(where):
    """Lines about the rows in which a peer often takes the slower of two speeds."""
    lines = []
    for key, found in where["rows"].items():
        shares = [f"{TITLES[name]} {100 * entry['slow']:.0f} %" for name, entry in found.items()
                  if entry.get("slow", 0) > MOST_SLOW]
        if shares:
            lines.append(f"- {key.split()[0]}, threads {key.split()[1]}: {', '.join(shares)}")
    return lines


def page(record):
    columns = ["best peer / Tremula", "row", "threads", *TITLES.values(), "Tremula: first result",
               "best peer: first result"]
    parts = [HEAD]
    for where in record["machines"]:
        note = textwrap.fill(where["note"], 100)
        parts.append(f"## {where['machine']}\n\n{note}\n\n")
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        titles = {row.name: row.title for row in rows.ROWS}
        order = [row.name for row in rows.ROWS]
        for key in sorted(where["rows"], key=lambda one: (
                int(one.split()[1]), order.index(one.split()[0]))):
            name, threads = key.split()
            lines.append(table_line(titles[name], threads, where["rows"][key]))
        parts.append("\n".join(lines) + "\n\n")
        for title, found in (("Slower with more threads:", slower_with_threads(where)),
                             (f"Calls that took more than {SLOW} times the least:",
                              two_speeds(where)),
                             ("Failed:", failures(where))):
            if found:
                parts.append("\n".join([title, "", *found]) + "\n\n")
    return "".join(parts).rstrip() + "\n"


def compare_builds(before, wanted, threads, pythons, seconds):
    """Prints what `before`, the folder of another checkout, and this one need for each row. The
    spread of a row is the larger of both medians over their minima."""
    builds = {name: {"PYTHONPATH": str(folder / "python"),
                     "TREMULA_LIBRARY_DIR": str(folder / "build/release/lib")}
              for name, folder in ((BEFORE, before.resolve()), ("tremula", ROOT))}
    print("| row | threads | before, ms | now, ms | now / before | spread |\n"
          "|---|---|---|---|---|---|", flush=True)
    for count in threads:
        for row in (one for one in rows.ROWS if one.name in wanted):
            found = measure(row, list(builds), count, pythons, seconds, builds)
            check(found)
            wrong = [entry["error"] for entry in found.values() if "error" in entry]
            if wrong:
                print(f"| {row.title} | {count} | {'; '.join(wrong)} |", flush=True)
                continue
            least, now = found[BEFORE]["min"], found["tremula"]["min"]
            spread = max(entry["median"] / entry["min"] - 1 for entry in found.values())
            mark = " (another result)" if found["tremula"].get("differs") else ""
            print(f"| {row.title} | {count} | {milliseconds(least)} | {milliseconds(now)}{mark} | "
                  f"{now / least:.2f} | {100 * spread:.0f} % |", flush=True)


def load(path):
    return json.loads(path.read_text()) if path.exists() else {"machines": []}


def place_of(record, note):
    """The entry of this machine."""
    name = f"{machine.cpu_model()}, {machine.cores()} cores"
    for where in record["machines"]:
        if where["machine"] == name:
            where["note"] = note
            return where
    record["machines"].append({"machine": name, "note": note, "rows": {}})
    return record["machines"][-1]


def versions(pythons):
    """The versions in the environments, as a line."""
    found = []
    packages = {"jax": ["jax"], "torch": ["torch"], "onnx": ["onnxruntime", "openvino"],
                "tf": ["tensorflow-cpu"]}
    for kind, python in pythons.items():
        if not pathlib.Path(python).exists():
            continue
        code = ("import importlib.metadata as m\nprint(', '.join(f'{p} {m.version(p)}' for p in "
                f"{packages[kind]!r}))")
        result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        found.append(result.stdout.strip())
    return ", ".join(one for one in found if one)


def main():
    names = [row.name for row in rows.ROWS]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="of " + ", ".join(names))
    parser.add_argument("--peers", default="", help="of " + ", ".join(TITLES))
    parser.add_argument("--threads", default="", help="numbers, such as 1,2; all cores without")
    parser.add_argument("--seconds", type=float, default=2, help="for each peer and row")
    parser.add_argument("--environments", default=str(ROOT / ".venv-bench"),
                        help="folders PREFIX-jax, PREFIX-torch, PREFIX-onnx, PREFIX-tf")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results.md")
    parser.add_argument("--record", type=pathlib.Path, default=ROOT / "build/league.json")
    parser.add_argument("--before", metavar="DIR", type=pathlib.Path,
                        help="another checkout of Tremula, built, to compare with")
    arguments = parser.parse_args()
    wanted = _chosen(parser, "--rows", arguments.rows, names)
    peers = _chosen(parser, "--peers", arguments.peers, list(TITLES))
    pythons = {kind: f"{arguments.environments}-{kind}/bin/python" for kind in PEERS.values()}
    peers = [name for name in peers if pathlib.Path(pythons[PEERS[name]]).exists()]
    threads = [int(one) for one in (arguments.threads or str(machine.cores())).split(",")]
    if arguments.before:
        if not (arguments.before / "build/release/lib/libtremula.so").exists():
            parser.error(f"--before: {arguments.before} has no build/release; build that checkout")
        compare_builds(arguments.before, wanted, threads, pythons, arguments.seconds)
        return
    record = load(arguments.record)
    begun = f"{time.strftime('%Y-%m-%d')}; load average {machine.load_average()} at the start"
    where = place_of(record, begun)
    known = versions(pythons)
    print("best peer / Tremula; least and median ms: " + ", ".join(TITLES[one] for one in peers))
    for count in threads:
        for row in rows.ROWS:
            if row.name not in wanted:
                continue
            found = measure(row, peers, count, pythons, arguments.seconds)
            check(found)
            where["rows"].setdefault(f"{row.name} {count}", {}).update(found)
            print(table_line(row.title, count, found), flush=True)
            for name, entry in found.items():
                if "error" in entry and _NO_TRAINING not in entry["error"]:
                    print(f"  {TITLES[name]}: {entry['error']}", flush=True)
            where["note"] = f"{begun}, {machine.load_average()} at the end; {known}"
            arguments.record.parent.mkdir(parents=True, exist_ok=True)
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")
            arguments.output.write_text(page(record))
    print(f"written: {arguments.output}")


def _chosen(parser, option, text, known):
    given = [one for one in text.split(",") if one]
    for one in given:
        if one not in known:
            parser.error(f"{option}: '{one}' is none of {', '.join(known)}")
    return given or known


if __name__ == "__main__":
    main()
