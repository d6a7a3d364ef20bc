"""MPICH's wheel, and MPI's standard ABI, which it has too. `make test-all` installs it."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long
HERE = pathlib.Path(__file__).parent
ENVIRONMENT = HERE.parents[2] / ".venv-mpich"


@pytest.fixture
def mpich(poprun, python_environment):
    if not (ENVIRONMENT / "bin/mpirun").exists():
        pytest.skip("MPICH is not installed in .venv-mpich")
    poprun.environment.update(python_environment, TREMULA_MPIRUN=str(ENVIRONMENT / "bin/mpirun"))
    return poprun


@pytest.mark.parametrize("library", ["libmpi.so.12", "libmpi_abi.so.1"])
def test_poprun(mpich, library):
    mpich.environment["TREMULA_MPI_LIBRARY"] = str(ENVIRONMENT / "lib" / library)
    lines = mpich.ok("--num-instances=2", "--num-replicas=2", sys.executable, HERE / "sums.py", 200)
    assert lines.count("2 on it: here\n") == lines.count("done\n") == 2


@pytest.mark.parametrize("name", ["group_test_group", "exec_test_processes"])
def test_c_tests(mpich, name):
    """Those of a death need Open MPI's --continuous."""
    program = pathlib.Path(mpich.command[0]).parent / name
    if not program.exists():
        pytest.skip("the C tests are not built")
    done = subprocess.run([program], env=mpich.environment, capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == 0 and "FAILED" not in done.stderr, done.stdout + done.stderr
