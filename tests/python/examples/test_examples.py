"""The examples print what they should, in processes of their own as a user runs them."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import interpreter
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
BIN = pathlib.Path(os.environ.get("TREMULA_BIN_DIR") or EXAMPLES.parent / "build/release/bin")
pytestmark = pytest.mark.smoke


def run(tmp_path, name, *arguments, **environment):
    environment = dict(os.environ, TREMULA_RUNTIME_DIR=str(tmp_path), **environment)
    result = interpreter.run([EXAMPLES / f"{name}.py", *arguments], env=environment)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout, result.stderr


def test_basic_graph(tmp_path):
    out, log = run(tmp_path, "basic_graph")
    assert out == "[3. 8.]\n"
    assert "Device /device:IPU:0 attached to IPU: 0\n" in log


def test_the_first_program_of_the_readme(tmp_path):
    text = (EXAMPLES.parent / "README.md").read_text()
    program = re.search(r"(?:^    .*\n|^\n)*?^    import(?:.*\n)(?:^    .*\n|^\n)*", text, re.M)[0]
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    out, log = run(tmp_path, tmp_path / "program")
    found = [float(value) for value in re.findall(r"\d\.\d+e-\d+", out)]
    wanted = [float(value) for value in re.search(r"session.run.* # (.*)", program)[1].split(",")]
    assert found == pytest.approx(wanted, rel=2e-3)
    assert re.search(r"# \.\.\. (.*)", program)[1] in log


def test_compiled_graph(tmp_path):
    out, log = run(tmp_path, "compiled_graph")
    assert out == "classes: [0 0 0 1]\nagrees with NumPy: True\n"
    assert "Device /device:IPU:0 attached to IPU: 0\n" in log


def test_sharded_graph(tmp_path):
    out, log = run(tmp_path, "sharded_graph")
    assert out == "1015.0\n"
    assert "Device /device:IPU:0 attached to IPUs: 24\n" in log


def test_feeds(tmp_path):
    out, _ = run(tmp_path, "feeds")
    losses = [float(value) for value in re.findall(r"20 losses, the last (\S+)", out)]
    assert len(losses) == 5 and losses[-1] < 1e-6 < losses[0]
    assert out.endswith("line: 1.50 x -0.50\n")


@pytest.mark.parametrize("name, wanted", [
    ("pipelining", r"(10 steps of 16 batches: loss .*\n){4}learned: True\n"),
    ("gradient_accumulation", r".*\n.*\nequal: True\n"),
    ("replication", r"losses of 50 steps on 4 replicas\nweights: \[ 1\.  -2\.   0\.5\]\n"),
    ("sharded_training", r"loss: .*\nlearned: True\n"),
    ("sequences", r"accuracy at first above 0.9: False\naccuracy after .* 0.9: True\n"),
    ("custom_loop", r"(epoch \d: 200 losses\n){4}accuracy above 0.95: True\n"),
    ("keras_pipeline", r"(.*\n)+loss falls: True\nas stock Keras on the CPU: True\n"),
    ("mixed_precision", r"computes in float16 with variables in float32\nthe optimizer: "
     r"LossScaleOptimizerV3\naccuracy above 0.9: True\nloss near that in float32: True\n"),
    ("estimator", r"steps: 100\naccuracy above 0.9: True\npredictions: 160 right: True\n"),
])
def test_training(tmp_path, name, wanted):
    if name == "estimator":
        pytest.importorskip("tensorflow_estimator")
    out, _ = run(tmp_path, name)
    assert re.fullmatch(wanted, out), out


@pytest.mark.smoke
def test_keras_fit(tmp_path):
    """The numbers in docs/keras.md are what the example prints."""
    out, _ = run(tmp_path, "keras_fit")
    page = (EXAMPLES.parent / "docs" / "keras.md").read_text()
    lines = [line for line in out.splitlines() if ": " in line and not line.startswith("Model:")]
    assert len(lines) == 10
    assert [line for line in lines if f"    {line}\n" not in page] == []


def block(page, first):
    """The code of a page that begins with the line `first`."""
    text = (EXAMPLES.parent / "docs" / page).read_text()
    code = re.search(rf"^    {re.escape(first)}\n(?:(?:    .*)?\n)+", text, re.M)[0]
    return textwrap.dedent(code)


def test_the_programs_that_the_pages_begin_with(tmp_path):
    """docs/keras.md trains on four IPUs; docs/plan.md has a model that does not fit."""
    (tmp_path / "program.py").write_text(
        block("keras.md", "import numpy as np") + "print(history.history['loss'])\n")
    (tmp_path / "large.py").write_text(block("plan.md", "import tensorflow as tf").partition(
        ".venv/bin/tremula")[0])
    environment = dict(os.environ, TREMULA_RUNTIME_DIR=str(tmp_path),
                       TREMULA_PYTHON=sys.executable)
    done = interpreter.run([tmp_path / "program.py"], cwd=tmp_path, env=environment)
    assert "attached to IPUs: 24" in done.stderr
    losses = ast.literal_eval(done.stdout.splitlines()[-1])
    assert losses[2] < 0.1 * losses[0]
    assert interpreter.run([tmp_path / "large.py"], cwd=tmp_path, env=environment).returncode == 0
    assert (tmp_path / "model.keras").exists()
    done = subprocess.run([BIN / "tremula", "plan", "large.keras", "--batch", "8", "--training",
                           "sgd"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 3
    assert "Out of memory: tile 0 of IPU 0 needs" in done.stdout
    assert "What would help" in done.stdout


def test_resnext(tmp_path):
    out, log = run(tmp_path, "resnext", "--depth=26", "--size=64", "--batch=2",
                   "--batches-per-run=3", "--runs=1")
    assert "probabilities (3, 2, 1000), sums near 1: True" in out
    assert re.search(r"ResNeXt-26, 64 x 64, batch 2: \d+\.\d+ images/s", out)
    assert "attached to IPU: 0" in log


def test_more_ipus_than_there_are(tmp_path):
    """The inventory comes from the environment: two M2000s have no sixteen IPUs."""
    script = tmp_path / "too_many.py"
    script.write_text((EXAMPLES / "sharded_graph.py").read_text().replace("IPUS = 4", "IPUS = 9"))
    environment = dict(os.environ, TREMULA_RUNTIME_DIR=str(tmp_path), TREMULA_INVENTORY="m2000-2")
    result = interpreter.run([script], env=environment)
    assert result.returncode != 0
    assert "could not find an IPU device with 9 IPUs" in result.stderr
