"""What Tremula costs a program of TensorFlow that has no IPUs: nothing, within 2 %.

    python bench/stock.py [ROUNDS]

Two environments that differ in tremula.pth alone take turns: it is all that an installed Tremula
has Python do at its start. Processor seconds to the end of `import tensorflow`, and to the end of
the first step of a Keras model, are each compared at their least, because others use the machine
too. The logs must have the same lines. The last line names Tremula's modules that were loaded.
"""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv

PROGRAM = """
import os, sys, time
import tensorflow as tf
print("import", time.process_time())
model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(4)])
model.compile("sgd", "mse")
model.fit(tf.ones([8, 8]), tf.ones([8, 4]), epochs=1, verbose=0)
print("first step", time.process_time())
print("loaded", sorted(name for name in sys.modules if name.split(".")[0] == "tremula"))
"""
TREE = pathlib.Path(__file__).resolve().parents[1]
MOST = 1.02


def environment(folder, with_tremula):
    """A Python that finds this one's packages, and the tree's Tremula as if it were installed."""
    venv.create(folder, with_pip=False)
    site, = folder.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if with_tremula:
        (site / "a_tree.pth").write_text(f"{TREE / 'python'}\n")
        (site / "zz_tremula.pth").write_text((TREE / "python/tremula.pth").read_text())
    return folder / "bin/python"


def measure(python, folder):
    environ = {key: value for key, value in os.environ.items()
               if key not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    done = subprocess.run([python, "-c", PROGRAM], cwd=folder, capture_output=True, text=True,
                          env={**environ, "TF_CPP_MIN_LOG_LEVEL": "0"}, check=True)
    *times, loaded = done.stdout.splitlines()
    log = re.sub(r"[0-9:. -]{15,}|/\S+?(?=tensorflow/)", "", done.stderr)
    log = re.sub(r"(?m)^([IWE]\d{4}).*?\]", r"\1]", log)
    return {name: float(seconds) for name, _, seconds in (one.rpartition(" ") for one in times)}, \
        log, loaded


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pythons = {with_tremula: environment(folder / str(with_tremula), with_tremula)
                   for with_tremula in (False, True)}
        least, logs, loaded = {}, {}, {}
        for turn in range(rounds + 1):  # the first one compiles Python's files
            for with_tremula, python in pythons.items():
                times, logs[with_tremula], loaded[with_tremula] = measure(python, folder)
                for name, seconds in times.items() if turn else ():
                    key = name, with_tremula
                    least[key] = min(seconds, least.get(key, seconds))
    failed = logs[False] != logs[True]
    for name in ("import", "first step"):
        ratio = least[name, True] / least[name, False]
        failed |= ratio > MOST
        print(f"{name:12} {least[name, False]:7.3f} s without Tremula {least[name, True]:7.3f} s "
              f"with it, ratio {ratio:.3f}")
    print("log:", "other lines" if logs[False] != logs[True] else "the same lines")
    print(loaded[True])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
