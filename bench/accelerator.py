#!/usr/bin/env python3
"""Tremula on an accelerator beside JAX on the same device, in turns: networks of the league.

    python bench/accelerator.py [--accelerator cuda] [--rows NAME[,NAME]...]

Says that there is nothing to measure where no plugin of that name is installed. --platform is
JAX's name of the device, where that is another one. Prints a table.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import league  # noqa: E402
from comparison import machine  # noqa: E402
from comparison.league import rows  # noqa: E402

ROWS = ["resnext", "resnet-training", "bert", "lstm-training"]
FIND = """
import numpy as np
from tremula import core
print(core.Engine(core.compile(core.Module.read(
    "HloModule m ENTRY e { x = f32[200,200] parameter(0) ROOT y = f32[200,200] tanh(x) }"
)), accelerator=%r).accelerated.splitlines()[0])
"""


def main():
    names = [row.name for row in rows.ROWS]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerator", default="cuda", help="as in TREMULA_ACCELERATOR")
    parser.add_argument("--platform", default="", help="as in JAX_PLATFORMS; the same without")
    parser.add_argument("--rows", default=",".join(ROWS), help="of " + ", ".join(names))
    parser.add_argument("--seconds", type=float, default=2, help="for each peer and row")
    parser.add_argument("--python", default=str(ROOT / ".venv-bench-jax/bin/python"))
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.python).exists():
        sys.exit(f"there is no {arguments.python}: make bench-league makes it")
    found = subprocess.run([arguments.python, "-c", FIND % arguments.accelerator], text=True,
                           capture_output=True, check=False)
    if found.returncode != 0:
        lines = found.stderr.strip().splitlines() or ["no reason"]
        print(f"nothing is measured: {lines[-1]}")
        return
    print(f"Tremula {found.stdout.strip()}; load average {machine.load_average()}")
    environments = {"tremula": {"TREMULA_ACCELERATOR": arguments.accelerator},
                    "jax": {"BENCH_PLATFORM": arguments.platform or arguments.accelerator}}
    pythons = {"jax": arguments.python}
    print("| row | accelerator, ms | JAX, ms | accelerator / JAX | first result, s | JAX's |")
    print("|---|---|---|---|---|---|")
    for row in rows.ROWS:
        if row.name not in arguments.rows.split(","):
            continue
        result = league.measure(row, ["tremula", "jax"], machine.cores(), pythons,
                                arguments.seconds, environments)
        league.check(result)
        print(line(row.title, result["tremula"], result["jax"]), flush=True)


def line(title, ours, theirs):
    for one in (ours, theirs):
        if "error" in one:
            return f"| {title} | {one['error']} |"
    mark = " (another result)" if ours.get("differs") else ""
    return (f"| {title} | {league.milliseconds(ours['min'])}{mark} | "
            f"{league.milliseconds(theirs['min'])} | {ours['min'] / theirs['min']:.2f} | "
            f"{ours['prepare'] + ours['first']:.2f} | {theirs['prepare'] + theirs['first']:.2f} |")


if __name__ == "__main__":
    main()
