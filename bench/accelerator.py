#!/usr/bin/env python3
"""Tremula on an accelerator: networks of the league beside JAX on the same device, in turns; what
an element of a feed costs; whole scripts of TensorFlow beside Tremula on the CPU.

    python bench/accelerator.py [--accelerator cuda] [--rows NAME[,NAME]...]

Prints tables; without a plugin of that name, a line that there is nothing to measure. --platform
is JAX's name of the device, if it is another one. `--rows ""` leaves the networks out,
`--scripts ""` the scripts.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import league  # noqa: E402
from comparison import machine  # noqa: E402
from comparison.league import rows  # noqa: E402

ROWS = ["resnext", "resnet-training", "bert", "lstm-training"]
MLP, RESNET = (("bench/comparison/keras_fit.py", "ours", "100", one) for one in ("mlp", "resnet"))
SCRIPTS = {"resnext": ("ResNeXt-101 by IPU feeds", ("examples/resnext.py",)),
           "keras": ("model.fit of our example", ("examples/keras_fit.py",)),
           "mlp": ("model.fit of 784-256-10", MLP), "resnet": ("model.fit of ResNet-50", RESNET)}
SCRIPT = """
import runpy, sys
import tremula._finder
sys.argv = %r
runpy.run_path(sys.argv[0], run_name="__main__")
"""
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
    parser.add_argument("--scripts", default=",".join(SCRIPTS), help="of " + ", ".join(SCRIPTS))
    parser.add_argument("--tensorflow", default=str(ROOT / ".venv/bin/python"),
                        help="a Python that has TensorFlow, for the scripts")
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
    found = script_of(arguments.python, ["bench/comparison/feed_loop.py"], arguments.accelerator)
    print(f"\nA loop's element, from an infeed and to an outfeed: {found['microseconds']:.0f} us; "
          f"an iteration without feeds: {found['alone']:.0f} us" if "alone" in found else
          f"\nNo feed loop: {found['error']}")
    print("\n| script, from its start to its end | accelerator, s | again | CPU, s | "
          "steps/s | CPU's |\n|---|---|---|---|---|---|", flush=True)
    for name, (title, words) in SCRIPTS.items():
        if name not in arguments.scripts.split(","):
            continue
        found = [script_of(arguments.tensorflow, words, one)
                 for one in (arguments.accelerator, arguments.accelerator, "")]
        print(script_line(title, *found), flush=True)


def script_of(python, words, accelerator):
    """Runs a script of this tree: {"seconds": ...} with its last line, if that is JSON; or
    {"error": ...}."""
    command = [python, "-c", SCRIPT % [*words]]
    start = time.time()
    environment = {**os.environ, "TREMULA_ACCELERATOR": accelerator,
                   "TREMULA_BENCH_START": str(start), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True,
                          check=False)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["no reason"])[-1][:200]}
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return {"seconds": time.time() - start} | (json.loads(last) if last.startswith("{") else {})


def script_line(title, first, second, cpu):
    for one in (first, second, cpu):
        if "error" in one:
            return f"| {title} | {one['error']} |"
    steps = [f"{one['steps_a_second']:.0f}" if "steps_a_second" in one else "-"
             for one in (second, cpu)]
    return (f"| {title} | {first['seconds']:.1f} | {second['seconds']:.1f} | "
            f"{cpu['seconds']:.1f} | {' | '.join(steps)} |")


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
