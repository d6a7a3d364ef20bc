"""The command line `tremula`, run as a program."""

import os
import pathlib
import subprocess

import built
import interpreter
import numpy as np
import pytest



def lapack():
    """NumPy's LAPACK, behind what older wheels of NumPy link it to without a path."""
    folder = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
    parts = [path for part in ("libquadmath", "libgfortran", "lib*openblas")
             for path in sorted(folder.glob(f"{part}*"))]
    return ":".join([*map(str, parts), "libopenblas.so.0", "liblapack.so.3"])


class Tool:
    """Runs the tool in a folder of the test."""

    def __init__(self, folder):
        self.folder = folder
        path = built.variables()["PYTHONPATH"]
        self.environment = {"TREMULA_LAPACK": lapack(), **os.environ,
                            "TREMULA_PYTHON": interpreter.stand_in(), "PYTHONPATH": path}

    def __call__(self, *arguments, before=None, **environment):
        """The completed process; `before` is called in it first."""
        return subprocess.run([built.program("tremula"), *map(str, arguments)], cwd=self.folder,
                              text=True, env={**self.environment, **environment},
                              capture_output=True, timeout=600, check=False, preexec_fn=before)

    def ok(self, *arguments, **environment):
        """The standard output of a run that must succeed."""
        result = self(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def fails(self, *arguments, code=1, **environment):
        """The message, one line, of a run that must fail."""
        result = self(*arguments, **environment)
        assert result.returncode == code, (result.returncode, result.stderr)
        lines = result.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("tremula: "), result.stderr
        return lines[0].removeprefix("tremula: ")

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def save(self, name, value):
        np.save(self.folder / name, value)
        return name

    def load(self, name):
        return np.load(self.folder / name)

    def compile(self, text, name="program", *options):
        """Compiles HLO text; the executable's name."""
        source = self.write(f"{name}.hlo", text)
        self.ok("compile", source, "-o", f"{name}.poplar_exec", *options)
        return f"{name}.poplar_exec"


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path)


@pytest.fixture(scope="session")
def tool_in():
    """tool_in(folder): the tool in another folder."""
    return Tool
