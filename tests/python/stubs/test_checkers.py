"""pyright, mypy and jedi with the stubs beside types-tensorflow, in their standard settings, in the
environment .venv-types of `make test-all`: no error in the examples and in programs in the style of
others; completion, signatures and docstrings."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / ".venv-types"
PROGRAMS = sorted([*(ROOT / "tests/python/stubs/programs").glob("*.py"),
                   *(ROOT / "examples").glob("*.py"), *(ROOT / "examples/user_op").glob("*.py")])

pytestmark = [pytest.mark.long, pytest.mark.skipif(
    not (ENVIRONMENT / "bin/pyright").exists(), reason="no .venv-types: make test-all makes it")]

MISTAKES = """\
from tensorflow.python import ipu
reveal_type(ipu.loops.repeat)
reveal_type(ipu.nn_ops.gelu(1.0))
reveal_type(ipu.config.IPUConfig().ipu_model.version)
reveal_type(ipu.ipu_infeed_queue.IPUInfeedQueue(None).dequeued)
ipu.rand_ops.dropout(1.0, rate="half")
ipu.scopes.ipu_scope(device=1)
ipu.no_such_module
import horovod.tensorflow as hvd
from tensorflow.contrib.ipu.python import ipu_compiler
from tensorflow.contrib import ipu as old_ipu, layers
import tensorflow.contrib.slim as slim
reveal_type(ipu_compiler.compile)
reveal_type(hvd.rank)
hvd.DistributedOptimizer(slim.no_name_of_ours, layers.conv2d)
old_ipu.utils.create_ipu_config(no_such_option=True)
"""
EDITOR = """\
import json, sys, jedi
text = '''from tensorflow.python import ipu
c = ipu.config.IPUConfig()
'''
project = jedi.Project(".", environment_path=sys.argv[1])
def at_end(line):
    return jedi.Script(text + line, project=project)
print(json.dumps({
    "names": [one.name for one in at_end("ipu.loops.rep").complete()],
    "options": [one.name for one in at_end("c.ipu_model.ver").complete()],
    "signature": at_end("ipu.loops.repeat(").get_signatures()[0].to_string(),
    "doc": at_end("ipu.loops.repeat").infer()[0].docstring()}))
"""


@pytest.fixture(scope="module", autouse=True)
def stubs():
    """Puts the stubs, and Tremula's sources, where pip would put them."""
    packages, = ENVIRONMENT.glob("lib/python3*/site-packages")
    subprocess.run([sys.executable, "-I", "-S", ROOT / "scripts/stubs.py", packages], check=True)
    (packages / "tremula-sources.pth").write_text(f"{ROOT / 'python'}\n")


@pytest.fixture
def programs(tmp_path):
    """Copies, away from the settings of this repository. JAX is not in the environment."""
    for one in PROGRAMS:
        if one.name != "jax_training.py":
            (tmp_path / one.name).write_text(one.read_text())
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/mistakes.py").write_text(MISTAKES)
    return tmp_path


def pyright(folder, what):
    outcome = subprocess.run(
        [ENVIRONMENT / "bin/pyright", "--outputjson", "--pythonpath", ENVIRONMENT / "bin/python",
         *what], cwd=folder, capture_output=True, text=True, check=False, env=_plain())
    return json.loads(outcome.stdout)["generalDiagnostics"]


def mypy(folder, what):
    return subprocess.run(
        [ENVIRONMENT / "bin/mypy", "--cache-dir", folder / "cache", *what], cwd=folder,
        capture_output=True, text=True, check=False, env=_plain()).stdout


def _plain():
    """Without the paths of this process."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def test_pyright(programs):
    names = sorted(one.name for one in programs.glob("*.py"))
    assert len(names) > 20
    errors = [one for one in pyright(programs, names) if one["severity"] == "error"]
    assert not errors, errors
    found = pyright(programs, ["wrong"])
    shown = "\n".join(one["message"] for one in found)
    assert 'gelu(1)" is "Tensor"' in shown and 'version" is "str"' in shown
    assert 'dequeued" is "bool"' in shown
    lines = {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}
    assert {6, 7, 8, 16} == lines


def test_mypy(programs):
    names = sorted(one.name for one in programs.glob("*.py"))
    assert "Success" in mypy(programs, names), mypy(programs, names)
    shown = mypy(programs, ["wrong/mistakes.py"])
    assert 'Revealed type is "tensorflow.Tensor"' in shown
    for line in (6, 7, 8, 16):
        assert f"mistakes.py:{line}: error" in shown, shown


def test_jedi(tmp_path):
    outcome = subprocess.run(
        [ENVIRONMENT / "bin/python", "-c", EDITOR, ENVIRONMENT], cwd=tmp_path, env=_plain(),
        capture_output=True, text=True, check=True)
    found = json.loads(outcome.stdout)
    assert found["names"] == ["repeat"] and found["options"] == ["version"]
    assert found["signature"].startswith("repeat(n: Union[int, Tensor], body: Callable")
    assert "gets what it returned before, the first time `inputs`" in found["doc"]
