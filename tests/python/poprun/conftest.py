"""poprun, over an mpirun of the tests' own (stub_mpirun.py) or over Open MPI's."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import built
import hosts
import pytest

HERE = pathlib.Path(__file__).parent


def find_open_mpi():
    """Open MPI's mpirun: of this Python's environment, or of PATH; None: there is none."""
    for path in (pathlib.Path(sys.executable).parent / "mpirun", shutil.which("mpirun")):
        if path is None or not pathlib.Path(path).exists():
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if "Open MPI" in version.stdout:
            return str(path)
    return None


class Poprun:
    """Runs poprun in a folder of the test, with an inventory whose IPUs nobody else has."""

    def __init__(self, folder, mpirun):
        self.folder = folder
        self.record = folder / "mpirun.json"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("POPRUN_", "POPDIST_", "OMPI_", "TREMULA_"))}
        self.environment.update(TREMULA_MPIRUN=str(mpirun), TREMULA_RUNTIME_DIR=str(folder / "run"),
                                STUB_RECORD=str(self.record))
        self.command = [built.program("poprun")]

    def __call__(self, *arguments, **environment):
        """The completed process."""
        return subprocess.run([*self.command, *map(str, arguments)], cwd=self.folder, text=True,
                              env={**self.environment, **environment}, capture_output=True,
                              timeout=600, check=False)

    def ok(self, *arguments, **environment):
        """The standard output of a run that must succeed."""
        result = self(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refuses(self, *arguments, code=2, **environment):
        """The message, one line, of a run that must fail."""
        result = self(*arguments, **environment)
        assert result.returncode == code, (result.returncode, result.stderr)
        lines = result.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("poprun: "), result.stderr
        return lines[0].removeprefix("poprun: ").removesuffix(" (see poprun --help)")

    def arguments(self):
        """What the stub was given."""
        return json.loads(self.record.read_text())


@pytest.fixture
def poprun(tmp_path):
    stub = tmp_path / "stub_mpirun.py"
    stub.symlink_to(HERE / stub.name)  # no host is reached from a path with a space
    return Poprun(tmp_path, stub)


@pytest.fixture
def open_mpi():
    """Open MPI's mpirun."""
    path = find_open_mpi()
    if path is None:
        pytest.skip("Open MPI is not installed")
    return path


@pytest.fixture
def mpi_poprun(tmp_path, open_mpi):
    """poprun over Open MPI, also for root."""
    own = Poprun(tmp_path, open_mpi)
    own.command.append("--allow-run-as-root=1")
    return own


@pytest.fixture
def two_hosts(tmp_path):
    with hosts.two_hosts(tmp_path) as both:
        yield both


@pytest.fixture
def python_environment():
    """The variables of a Python program of the test."""
    return {**built.variables(), "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
