"""How far measurements are from the estimate, by kind of op: the error bars that answers print.

    python bench/fidelity/error_bars.py [--write] [--update FILE.md]

The points are the layers of layers.csv, the matmuls of published.h and two transfers. Half of
them, by the parity of the CRC-32 of the name, make the bars (--write: into error_bars.def); the
others are held out, and tell how many measurements are inside of the bars that the tool prints.
docs/accuracy.md says how a bar is made. No TensorFlow is needed.
"""

import argparse
import csv
import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

import layers
from tool import find_tremula, replace_between

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.path.join(ROOT, "src", "ipu", "program")
TABLE = os.path.join(FOLDER, "error_bars.def")
MARKS = "<!-- bars: begin -->\n", "<!-- bars: end -->"
BOW_CLOCK = 1.85e9

# The share of measurements that is meant to be inside, and Student's t for that share on both
# sides, by degrees of freedom from 3 on.
LEVELS = {
    "cycles": (5 / 6, (1.818, 1.688, 1.618, 1.574, 1.543, 1.521, 1.505, 1.492, 1.481, 1.472, 1.465,
                       1.459, 1.454, 1.449, 1.445, 1.441)),
    "bytes": (7 / 8, (2.113, 1.936, 1.841, 1.782, 1.742, 1.713, 1.691, 1.674, 1.661, 1.649, 1.640,
                      1.632, 1.625, 1.619, 1.614, 1.609)),
}
MANY = 20  # points from which on the bar is between ranks of them
FEW = 4    # points below which it is from the least to the greatest

# Seconds and bytes of transfers with an MK2 (docs/accuracy.md): a training loop's input, a
# detection network's results. The estimate has both rates.
TRANSFERS = (553e-6, 1e6), (3.1e-3, 8.8e6)


@dataclasses.dataclass
class Point:
    """A measured figure, "cycles" or "bytes", and the estimate's."""
    name: str
    machine: str
    kind: str
    held_out: bool
    figure: str
    measured: float
    estimate: float
    known: float  # the part of the estimate that has no error
    low: float    # the tool's bar
    high: float

    def ratio(self):
        return (max(self.measured - self.known, 0.01 * self.measured) /
                (self.estimate - self.known))

    def is_inside(self):
        return self.low <= self.measured <= self.high


def kinds():
    """The ids of error_kinds.def and their names."""
    with open(os.path.join(FOLDER, "error_kinds.def"), encoding="utf-8") as file:
        return dict(re.findall(r'^ERROR_KIND\((\w+), "(.*)"\)', file.read(), re.M))


# ---- Points --------------------------------------------------------------------------------------

def _points_of(case, name, machine, cycles, size=None, ours=0):
    """The points of a planned case. `cycles`, `size`: as measured; None: it was not. `ours`: the
    estimate of `size`."""
    found, held_out = [], layers.is_held_out(name)
    parts = {one["name"]: one for one in case["kinds"]}
    host = parts.pop("transfers with the host", {"cycles": 0, "cycles_low": 0, "cycles_high": 0})
    kind = max(parts.values(), key=lambda one: one["cycles"])["name"]
    total, memory = case["cycles"], case["memory"]
    if cycles is not None:
        transfers = total["host"]  # without their syncs, which the measurements count
        ends = [total[end] - host["cycles"] * host[f"cycles_{end}"] - transfers
                for end in ("low", "high")]
        found.append(Point(name, machine, kind, held_out, "cycles", cycles,
                           total["total"] - transfers, 0, *ends))
    if size is not None:
        low, high = (memory[f"worst_tile_bytes_{end}"] / memory["worst_tile_bytes"] * ours
                     for end in ("low", "high"))
        whole = sum(one["bytes"] for one in parts.values())
        known = parts.get("inputs and constants", {"bytes": 0})["bytes"] / whole * ours
        found.append(Point(name, machine, kind, held_out, "bytes", size, ours, known, low, high))
    return found


def _layer_points(which, folder):
    with open(os.path.join(HERE, "layers.csv"), encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] in layers.KINDS]
    for row in rows:
        if which != "all" and layers.is_held_out(row["name"]) != (which == "held-out"):
            continue
        arguments = row["arguments"].split()
        module = layers.KINDS[row["kind"]](*arguments)
        tiles = int(arguments[3]) if row["kind"] == "reduce" else 0
        code = layers.counts_code(row["kind"])
        for target, case in zip(("mk1", "mk2"), layers.plan(module, folder, tiles, code)):
            if row[f"{target}_cycles"] and "cycles" in case:
                yield from _points_of(case, row["name"], target, int(row[f"{target}_cycles"]),
                                      int(row[f"{target}_bytes"]),
                                      layers.counted_bytes(row["kind"], case))


def _matmul(dtype, m, n, folder):
    """The case of [m,m] x [m,n] on a Bow; of halves with the better partial sums."""
    path = os.path.join(folder, "matmul.hlo")
    with open(path, "w", encoding="utf-8") as file:
        file.write(layers.keep_inputs(
            f"HloModule matmul\n\nENTRY e {{\n  a = {dtype}[{m},{m}] parameter(0)\n"
            f"  b = {dtype}[{m},{n}] parameter(1)\n  ROOT c = {dtype}[{m},{n}] dot(a, b), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"))
    cases = []
    for partials in ("half", "float") if dtype == "f16" else ("float",):
        done = subprocess.run([find_tremula(), "plan", path, "--json", "--target", "bow",
                               "--option", f'matmul_options={{"partialsType":"{partials}"}}'],
                              capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            sys.exit(done.stderr)
        cases.append(json.loads(done.stdout)["cases"][0])
    return min(cases, key=lambda case: case["cycles"]["total"])


def _matmul_points(which, folder):
    with open(os.path.join(HERE, "published.h"), encoding="utf-8") as file:
        found = re.findall(r"\{TRM_(F16|F32), (\d+), (\d+), ([\d.]+)\}", file.read())
    for dtype, m, n, rate in found:
        name = f"matmul_{dtype.lower()}_{m}x{m}x{n}"
        if which == "all" or layers.is_held_out(name) == (which == "held-out"):
            m, n = int(m), int(n)
            yield from _points_of(_matmul(dtype.lower(), m, n, folder), name, "bow",
                                  2 * m * m * n / (float(rate) * 1e12) * BOW_CLOCK)


def points(which="all"):
    """The points of a set: "causes", "held-out" or "all"."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_layer_points(which, folder), *_matmul_points(which, folder)]


# ---- Bars ----------------------------------------------------------------------------------------

def bar(ratios, figure):
    """Between which ratios of measurement and estimate the next one is expected, less 1."""
    level, student = LEVELS[figure]
    logs = sorted(math.log(ratio) for ratio in ratios)
    count = len(logs)
    if count >= MANY:
        def at(rank):
            whole = int(rank)
            return logs[whole - 1] + (rank - whole) * (logs[whole] - logs[whole - 1])
        rank = (1 - level) / 2 * (count + 1)
        low, high = at(rank), at(count + 1 - rank)
    elif count >= FEW:
        spread = student[count - FEW] * statistics.stdev(logs) * math.sqrt(1 + 1 / count)
        low, high = statistics.mean(logs) - spread, statistics.mean(logs) + spread
    else:
        low, high = logs[0], logs[-1]
    return round(math.exp(low) - 1, 3), round(math.exp(high) - 1, 3)


def kind_bar(causes, figure, name=None):
    """The bar of a kind, or of all points, and the number of points. The two machines of a layer
    err alike; so where a kind has few layers, its bar is at least that of all points."""
    every = [p for p in causes if p.figure == figure]
    some = [p for p in every if name in (None, p.kind)]
    low, high = bar([p.ratio() for p in some], figure)
    if len({p.name for p in some}) < FEW:
        least, greatest = bar([p.ratio() for p in every], figure)
        low, high = min(low, least), max(high, greatest)
    return (low, high), len(some)


def bars(causes):
    """By id: the bars of cycles and of bytes, and the number of points."""
    rates = [size / seconds for seconds, size in TRANSFERS]
    found = {}
    for key, name in kinds().items():
        kind = None if key in ("OTHER", "HOST") else name
        cycles, count = kind_bar(causes, "cycles", kind)
        if key == "HOST":
            cycles, count = bar([rates[0] / rates[1], rates[1] / rates[0]], "cycles"), len(rates)
        found[key] = (*cycles, *kind_bar(causes, "bytes", kind)[0], count)
    return found


def table_text(found):
    """The rows of error_bars.def."""
    return "".join(f"ERROR_BAR({key}, {', '.join(f'{end:.3f}' for end in row[:4])})\n"
                   for key, row in found.items())


def stored_rows():
    with open(TABLE, encoding="utf-8") as file:
        text = file.read()
    return text[:text.index("\nERROR_BAR(") + 1], text[text.index("\nERROR_BAR(") + 1:]


# ---- Tables --------------------------------------------------------------------------------------

def _count(some):
    return f"{sum(p.is_inside() for p in some)} of {len(some)}" if some else "-"


def summary(held_out, figure):
    """The share of points inside of their bars, and the median half of a bar."""
    some = [p for p in held_out if p.figure == figure]
    return (sum(p.is_inside() for p in some) / len(some),
            statistics.median((p.high - p.low) / 2 / p.estimate for p in some))


def document(found, held_out):
    lines = ["| kind of op | points | error of cycles | held out: inside | error of bytes | "
             "held out: inside |", "|---|---|---|---|---|---|"]
    for key, name in kinds().items():
        row = found[key]
        some = [p for p in held_out if p.kind == name]
        lines.append(f"| {name} | {row[4]} | {100 * row[0]:+.0f} to {100 * row[1]:+.0f} % | "
                     f"{_count([p for p in some if p.figure == 'cycles'])} | "
                     f"{100 * row[2]:+.0f} to {100 * row[3]:+.0f} % | "
                     f"{_count([p for p in some if p.figure == 'bytes'])} |")
    lines.append("")
    for figure in ("cycles", "bytes"):
        inside, median = summary(held_out, figure)
        lines.append(f"- {figure}: {100 * inside:.0f} % of "
                     f"{sum(p.figure == figure for p in held_out)} held-out points are inside of "
                     f"their bars; half of the median bar is {100 * median:.1f} %")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="error bars by kind of op")
    parser.add_argument("--write", action="store_true", help="write error_bars.def")
    parser.add_argument("--update", metavar="FILE.md")
    arguments = parser.parse_args()
    every = points()
    found = bars([p for p in every if not p.held_out])
    head, rows = stored_rows()
    if arguments.write:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(head + table_text(found))
    elif rows != table_text(found):
        sys.exit("error_bars.def differs from the comparison: run with --write, build, run again")
    text = document(found, [p for p in every if p.held_out])
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
