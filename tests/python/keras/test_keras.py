"""Keras on IPUs: each file of cases in a process of its own.

`python -m pytest tests/python/keras/case_layers_rnn.py` runs one of them alone.
"""

import pathlib

import interpreter
import pytest

FOLDER = pathlib.Path(__file__).parent


# What the newest TensorFlow must pass too; the other files would only take time there. `keras` is
# Keras 3 beside it and has none of the names of case_names.py.
SMOKE = ("case_extensions.py", "case_fit_options.py", "case_keras3.py", "case_layers_others.py",
         "case_layers_rnn.py", "case_optimizers.py", "case_pipelines_options.py", "case_saving.py",
         "case_sdk21_programs.py", "case_serving.py", "case_stages.py", "case_user_ops.py")
LONG = ("case_long_runs.py", "case_matrix_pipelines.py", "case_matrix_sdk21.py",
        "case_saving_versions.py")
NOTHING_TO_RUN = 5  # pytest's exit code: the file is for another version of TensorFlow


@pytest.mark.alone
@pytest.mark.parametrize("case", [
    pytest.param(one.name, marks=[mark for names, mark in (
        (SMOKE, pytest.mark.smoke), (LONG, pytest.mark.long)) if one.name in names])
    for one in sorted(FOLDER.glob("case_*.py"))])
def test_cases(case, request):
    quick = ["-m", "not long"] if request.config.option.markexpr else []
    done = interpreter.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *quick, FOLDER / case])
    if done.returncode == NOTHING_TO_RUN:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
