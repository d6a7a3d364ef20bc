"""The example runs, and docs/jax.md has what it prints.

python tests/python/jax/test_example.py writes the page anew, with the JAX named here."""

import os
import pathlib
import re
import subprocess
import sys

import jax

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/jax.md"
VERSION = "0.10.2"  # a plan follows the HLO, which changes with JAX
BLOCK = re.compile(r"(<!-- example begin -->\n)(.*)(<!-- example end -->)", re.DOTALL)


def printed():
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run([sys.executable, ROOT / "examples/jax_training.py"], check=False,
                            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                            timeout=600)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


def page(text):
    block = "".join(f"    {line}\n" for line in text.splitlines())
    return BLOCK.sub(lambda found: f"{found[1]}\n{block}\n{found[3]}", PAGE.read_text())


def test_the_example_and_its_page():
    text = printed()
    scores = [float(one) for one in re.findall(r"accuracy ([0-9.]+)", text)]
    assert len(scores) == 4 and scores[0] < 0.7 and min(scores[1:]) > 0.9
    assert "fits              yes" in text
    if jax.__version__ == VERSION:
        assert PAGE.read_text() == page(text), "run python tests/python/jax/test_example.py"


if __name__ == "__main__":
    PAGE.write_text(page(printed()))
