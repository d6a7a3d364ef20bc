"""Keras on IPUs: each file of cases in a process of its own.

`python -m pytest tests/python/keras/case_layers_rnn.py` runs one of them alone.
"""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


# `keras` is Keras 3 beside the newest TensorFlow and has none of the names of case_names.py.
@pytest.mark.parametrize("case", [
    pytest.param(one.name, marks=() if one.name == "case_names.py" else pytest.mark.smoke)
    for one in sorted(FOLDER.glob("case_*.py"))])
def test_cases(case):
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           str(FOLDER / case)],
                          text=True, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
