"""Our own examples compute the same on an accelerator, with all that they have: feeds, loops,
Estimators, Keras, pipelines, replicas, tremula.jax."""

import pathlib
import re

import pytest

from test_accelerator import plugin, run

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
# Imports TensorFlow once, then runs the example in two processes, whose output goes to files.
START = """
import os, runpy, sys
import tremula._finder
import tensorflow
for number, accelerator in enumerate(ACCELERATORS):
    child = os.fork()
    if child == 0:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{FOLDER}/{number}.{name}", os.O_WRONLY | os.O_CREAT), stream)
        os.environ["TREMULA_ACCELERATOR"] = accelerator
        sys.argv = [PATH]
        runpy.run_path(PATH, run_name="__main__")
        sys.exit()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(open(f"{FOLDER}/{number}.err").read()[-3000:])
"""


QUICK = ["basic_graph", "compiled_graph", "estimator", "feeds", "keras_fit"]
LONG = ["custom_loop", "gradient_accumulation", "keras_pipeline", "mixed_precision", "pipelining",
        "replication", "sharded_graph", "sharded_training"]


@pytest.mark.parametrize("name", QUICK + [pytest.param(one, marks=pytest.mark.long)
                                          for one in LONG])
def test_same_numbers(name, tmp_path):
    """To some units of the fourth digit after a training; regions of any size are moved."""
    settings = (f"ACCELERATORS = {['', plugin()]!r}; FOLDER = {str(tmp_path)!r}; "
                f"PATH = {str(EXAMPLES / name)!r} + '.py'")
    done = run(settings + START, TREMULA_ACCELERATOR_LEAST="0", POPLAR_LOG_LEVEL="INFO",
               TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    outputs = [(tmp_path / f"{number}.out").read_text() for number in range(2)]
    logs = [(tmp_path / f"{number}.err").read_text() for number in range(2)]
    assert [" run on cpu:0" in log for log in logs] == [False, True]
    assert " run on the CPU, not on" not in logs[1]
    numbers = [[float(one) for one in NUMBER.findall(output)] for output in outputs]
    assert outputs[0] and NUMBER.sub("N", outputs[0]) == NUMBER.sub("N", outputs[1])
    assert numbers[1] == pytest.approx(numbers[0], rel=2e-3, abs=2e-4)
