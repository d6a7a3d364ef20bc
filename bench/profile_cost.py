#!/usr/bin/env python3
"""The cost of a profile: a small convolutional network's training, 1000 batches a step from an
infeed, with and without POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}', in turns.

    python bench/profile_cost.py [--rounds N] [--batches N] [--steps N]
                                 [--output build/profile_cost.json]

Each run is a process of its own. Prints the least wall time and processor time of each, their
ratios (with a profile / without), and the bytes of the files. On a machine that others use too,
the ratio of processor times is the better one.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

_PROGRAM = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
tf.disable_v2_behavior()
batches, steps = int(sys.argv[1]), int(sys.argv[2])
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
random = np.random.RandomState(1)
images = random.rand(256, 28, 28, 1).astype(np.float32)
labels = random.randint(0, 10, 256).astype(np.int32)
data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(16, drop_remainder=True)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data.prefetch(16))
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

def network(x):
    for filters in (8, 16):
        x = tf.layers.conv2d(x, filters, 3, padding="same", activation=tf.nn.relu)
        x = tf.layers.max_pooling2d(x, 2, 2)
    return tf.layers.dense(tf.layers.dense(tf.layers.flatten(x), 64, tf.nn.relu), 10)

def train(image, label):
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        logits=network(image), labels=label))
    with tf.control_dependencies([tf.train.GradientDescentOptimizer(.01).minimize(loss)]):
        return outfeed.enqueue(loss)

with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(batches, train, [], infeed))
with tf.Session() as session:
    session.run(infeed.initializer)
    session.run(tf.global_variables_initializer())
    for _ in range(steps):
        session.run(run)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=1000, help="of a step")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--output", default=ROOT / "build" / "profile_cost.json",
                        type=pathlib.Path)
    arguments = parser.parse_args()
    found = {"plain": [], "profiled": []}
    for turn in range(arguments.rounds):
        order = list(found)
        for kind in order if turn % 2 == 0 else order[::-1]:
            found[kind].append(_measure(kind == "profiled", arguments))
    record = {"batches": arguments.batches, "steps": arguments.steps, "load_average":
              os.getloadavg()[0], "bytes": max(one["bytes"] for one in found["profiled"]),
              "runs": found}
    for key in ("wall_seconds", "processor_seconds"):
        least = {kind: min(one[key] for one in runs) for kind, runs in found.items()}
        record[f"{key}_ratio"] = least["profiled"] / least["plain"]
        print(f"{key:18} without {least['plain']:8.3f}   with a profile {least['profiled']:8.3f}"
              f"   ratio {record[f'{key}_ratio']:.2f}")
    print(f"files {record['bytes'] / 1e6:.1f} MB; load average {record['load_average']:.1f}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"written: {arguments.output}")


def _measure(is_profiled, arguments):
    """One run of the program: its seconds, and the bytes of its files."""
    environment = {key: value for key, value in os.environ.items()
                   if key != "POPLAR_ENGINE_OPTIONS"}
    if is_profiled:
        environment["POPLAR_ENGINE_OPTIONS"] = '{"autoReport.all":"true"}'
    with tempfile.TemporaryDirectory() as folder:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(arguments.batches), str(arguments.steps)],
            cwd=folder, env=environment, capture_output=True, text=True, check=False)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(done.stderr[-2000:])
        size = sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*")
                   if path.is_file())
    return {"wall_seconds": wall, "bytes": size, "processor_seconds":
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


if __name__ == "__main__":
    main()
