"""Our own examples compute the same on an accelerator, with all that they have: feeds, loops,
Estimators, Keras, pipelines, replicas, tremula.jax."""

import pathlib
import re

import pytest

from test_accelerator import plugin, run

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
START = """
import sys, runpy
import tremula._finder
sys.argv = [{path!r}]
runpy.run_path({path!r}, run_name="__main__")
"""


QUICK = ["basic_graph", "compiled_graph", "estimator", "feeds", "keras_fit", "keras_pipeline"]
LONG = ["custom_loop", "gradient_accumulation", "mixed_precision", "pipelining", "replication",
        "sharded_graph", "sharded_training"]


@pytest.mark.parametrize("name", QUICK + [pytest.param(one, marks=pytest.mark.long)
                                          for one in LONG])
def test_same_numbers(name):
    """To some units of the fourth digit after a training; regions of any size are moved."""
    text, outputs = START.format(path=str(EXAMPLES / f"{name}.py")), []
    for accelerator in ("", plugin()):
        done = run(text, accelerator, TREMULA_ACCELERATOR_LEAST="0", POPLAR_LOG_LEVEL="INFO")
        assert done.returncode == 0, done.stderr[-3000:]
        outputs.append(done.stdout)
        assert bool(accelerator) == (" run on cpu:0" in done.stderr)
        assert " run on the CPU, not on" not in done.stderr
    numbers = [[float(one) for one in NUMBER.findall(output)] for output in outputs]
    assert NUMBER.sub("N", outputs[0]) == NUMBER.sub("N", outputs[1])
    assert numbers[1] == pytest.approx(numbers[0], rel=2e-3, abs=2e-4)
