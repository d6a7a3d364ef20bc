"""What a user waits for: from the start of Python to the first result, in new processes.

ours, cold      no caches: a new HOME and XDG_CACHE_HOME each time
ours            the same again: the list of ops is cached
ours, programs  and compiled programs, too (--executable_cache_path)
tf              the same graph by stock TensorFlow: no Tremula in the process
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from comparison import machine

# A guide's first program; %s is what is different on an IPU.
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


def measure(rounds):
    """{kind: {"seconds": [...], "min": ..., "median": ...}}, or {kind: {"error": ...}}."""
    record = {"load_average": machine.load_average(), "kinds": {kind: {"seconds": []}
                                                                for kind in KINDS}}
    with tempfile.TemporaryDirectory() as folder:
        caches = {"cached": os.path.join(folder, "cached"),
                  "programs": os.path.join(folder, "programs"), "tf": os.path.join(folder, "tf")}
        order = list(KINDS)
        for number in range(-1, rounds):  # the first one fills the caches and is not counted
            turn = max(number, 0) % len(order)
            for kind in order[turn:] + order[:turn]:
                entry = record["kinds"][kind]
                if number < 0 and kind == "cold" or "error" in entry:
                    continue
                home = caches.get(kind) or os.path.join(folder, f"cold{number}")
                try:
                    seconds = _run(kind, home)
                except (OSError, RuntimeError) as error:
                    entry["error"] = str(error)
                    continue
                if number >= 0:
                    entry["seconds"].append(seconds)
    for entry in record["kinds"].values():
        if entry["seconds"]:
            entry["min"], entry["median"] = min(entry["seconds"]), statistics.median(
                entry["seconds"])
    return record


def _run(kind, home):
    """Seconds until the program has printed its result."""
    os.makedirs(home, exist_ok=True)
    environment = dict(os.environ, HOME=home, XDG_CACHE_HOME=os.path.join(home, "cache"),
                       TF_CPP_MIN_LOG_LEVEL="2")
    if kind == "programs":
        environment["TF_POPLAR_FLAGS"] = "--executable_cache_path=" + os.path.join(home, "programs")
    command = [sys.executable, "-u", "-c", _STOCK if kind == "tf" else _OURS]
    with tempfile.TemporaryFile("w+") as log:
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log,
                              text=True) as process:
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
