"""TensorFlow 2 programs on IPUs: each file of cases in a process of its own.

`python -m pytest tests/python/functions/case_programs.py` runs one of them alone.
"""

import pathlib

import interpreter
import pytest

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.smoke
@pytest.mark.parametrize("case", sorted(one.name for one in FOLDER.glob("case_*.py")))
def test_cases(case):
    done = interpreter.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", FOLDER / case])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
