"""Waiting times in new processes: from the start of Python to the first result of a small program,
and from the graph of ResNet-50's training to its first step.

ours, cold      no caches: a new HOME and XDG_CACHE_HOME each time
ours            the list of ops is cached
ours, programs  and so are compiled programs (--executable_cache_path)
tf              the same graph by stock TensorFlow: no Tremula in the process
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import machine

# A guide's first program; %s stands for the lines that differ on an IPU.
_PROGRAM = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
%s
with tf.device("cpu"):
  pa, pb, pc = [tf.placeholder(np.float32, [2], name=name) for name in "abc"]
def add(a, b, c):
  return (a + b) + (a + c)
%s
with tf.Session() as sess:
  print(sess.run(result, feed_dict={pa: [1., 1.], pb: [0., 1.], pc: [1., 5.]}))
"""

_STOCK = _PROGRAM % ("", "result = [add(pa, pb, pc)]")
_OURS = _PROGRAM % ("""
from tensorflow.python import ipu
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
""", """
with ipu.scopes.ipu_scope("/device:IPU:0"):
  result = ipu.ipu_compiler.compile(add, [pa, pb, pc])
""")

KINDS = {"cold": "ours, no caches", "cached": "ours, cached",
         "programs": "ours, cached, programs too", "tf": "stock TensorFlow"}


# Kinds for the training. "cold" would tell nothing new: the list of ops makes no difference here.
TRAINING = [kind for kind in KINDS if kind != "cold"]


def measure(rounds):
    """{kind: {"seconds": [...], "min": ..., "median": ...}}, or {kind: {"error": ...}}."""
    record = in_turns(list(KINDS), rounds, _run)
    for entry in record["kinds"].values():
        if entry["seconds"]:
            entry["min"], entry["median"] = min(entry["seconds"]), statistics.median(
                entry["seconds"])
    return record


def measure_training(rounds):
    """{kind: {"seconds": [record of first_step.py, ...], "min": {part: ...}}}. "to_step" is the
    time from the graph to the first step: initialising and the first step, minus a later step."""
    record = in_turns(TRAINING, rounds, _run_training)
    for entry in record["kinds"].values():
        for one in entry["seconds"]:
            one["to_step"] = one["initialise"] + one["first"] - one["step"]
        if entry["seconds"]:
            entry["min"] = {part: min(one[part] for one in entry["seconds"])
                            for part in entry["seconds"][0]}
    return record


def in_turns(kinds, rounds, run):
    """{"kinds": {kind: {"seconds": [results of run(kind, home)]}}}, with "error" where one fails.
    The first round does not count."""
    record = {"load_average": machine.load_average(),
              "kinds": {kind: {"seconds": []} for kind in kinds}}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(-1, rounds):  # the first one fills the caches and does not count
            turn = max(number, 0) % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                entry = record["kinds"][kind]
                if number < 0 and kind == "cold" or "error" in entry:
                    continue
                home = os.path.join(folder, kind + (str(number) if kind == "cold" else ""))
                try:
                    seconds = run(kind, home)
                except (OSError, RuntimeError, ValueError) as error:
                    entry["error"] = str(error)
                    continue
                if number >= 0:
                    entry["seconds"].append(seconds)
    return record


def environment(kind, home):
    """The environment of a new process, with its caches in `home`."""
    os.makedirs(home, exist_ok=True)
    flags = ["--use_ipu_model"]
    if kind == "programs":
        flags.append("--executable_cache_path=" + os.path.join(home, "programs"))
    return dict(os.environ, HOME=home, XDG_CACHE_HOME=os.path.join(home, "cache"),
                TF_CPP_MIN_LOG_LEVEL="2", TF_POPLAR_FLAGS=" ".join(flags))


def _run_training(kind, home):
    """The record of first_step.py."""
    script = os.path.join(os.path.dirname(__file__), "first_step.py")
    done = subprocess.run([sys.executable, script, "tf" if kind == "tf" else "ours"],
                          env=environment(kind, home), capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"exit code {done.returncode}: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _run(kind, home):
    """Seconds until the program has printed its result."""
    command = [sys.executable, "-u", "-c", _STOCK if kind == "tf" else _OURS]
    with tempfile.TemporaryFile("w+") as log:
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment(kind, home), stdout=subprocess.PIPE,
                              stderr=log, text=True) as process:
            line = ""
            while "array([3., 8.]" not in line:
                line = process.stdout.readline()
                if not line:
                    break
            seconds = time.perf_counter() - start
            process.stdout.read()
        if process.returncode or not line:
            log.seek(0)
            last = (log.read().strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"exit code {process.returncode}: {last}")
    return seconds
