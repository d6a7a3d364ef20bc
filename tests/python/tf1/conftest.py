"""Old programs, run by a runner in processes of their own."""

import os
import subprocess
import sys
import textwrap

import built
import interpreter
import pytest



@pytest.fixture
def run(tmp_path):
    """Runs a program's text as `python -m RUNNER program.py`; returns the completed process.
    `fresh`: in a process that has not imported TensorFlow."""
    def run_text(text, runner="tremula.tf1", fresh=False, **environment):
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        environment = {**os.environ, **built.variables(), "TREMULA_RUNTIME_DIR": str(tmp_path),
                       **environment}
        code = ("import sys, tremula._finder; from tremula.old_programs import runner; "
                f"runner.main({runner!r}, sys.argv[1:])")
        if fresh:
            return subprocess.run([sys.executable, "-c", code, program], env=environment,
                                  cwd=tmp_path, text=True, capture_output=True)
        return interpreter.run(["-c", code, program], env=environment, cwd=tmp_path)
    return run_text


@pytest.fixture
def prints(run):
    """Runs a program that must succeed; returns the lines it prints."""
    def run_text(text, **environment):
        result = run(text, **environment)
        assert result.returncode == 0, result.stderr[-4000:]
        return result.stdout.splitlines()
    return run_text
