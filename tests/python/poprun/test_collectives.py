"""popdist, Horovod's functions and host collectives in two processes."""

import os
import pathlib
import re
import subprocess
import sys

import interpreter
import pytest

CASE = pathlib.Path(__file__).with_name("case_collectives.py")


@pytest.mark.smoke
def test_started_by_poprun(mpi_poprun, python_environment):
    text = mpi_poprun.ok("--num-replicas=4", "--num-instances=2",
                         interpreter.stand_in(), CASE, "poprun", **python_environment)
    assert sorted(text.splitlines()) == ["[1,0]<stdout>: done", "[1,1]<stdout>: done"]


@pytest.mark.long  # test_distributed_page.py starts a smaller program in this way
def test_started_by_mpirun(mpi_poprun, python_environment):
    done = subprocess.run(
        [mpi_poprun.environment["TREMULA_MPIRUN"], "--allow-run-as-root", "-np", "2", "--bind-to",
         "none", sys.executable, str(CASE), "mpirun"],
        cwd=mpi_poprun.folder, env={**mpi_poprun.environment, **python_environment}, text=True,
        capture_output=True, timeout=600, check=False)
    assert done.returncode == 0 and done.stdout == "done\ndone\n", done.stderr


def test_a_missing_library_of_mpi(python_environment):
    """A launcher's variables without MPI."""
    done = subprocess.run(
        [sys.executable, "-c", "import popdist; popdist.init()"], check=False, text=True,
        env={**os.environ, **python_environment, "OMPI_COMM_WORLD_RANK": "0",
             "OMPI_COMM_WORLD_SIZE": "2", "TREMULA_MPI_LIBRARY": "/nowhere/libmpi.so"},
        capture_output=True, timeout=600)
    assert "RuntimeError: popdist.init: " in done.stderr
    assert "set TREMULA_MPI_LIBRARY" in done.stderr


def test_alone_nothing_of_mpi_is_searched(python_environment):
    """Whether it is installed or not, a process without others starts as fast."""
    done = subprocess.run(
        [sys.executable, "-c", "import popdist; popdist.init(); from tremula import group\n"
         "import numpy as np\ngroup.all_reduce('x', np.ones(1))"],
        env={**os.environ, **python_environment, "LD_DEBUG": "libs"}, check=True, text=True,
        capture_output=True, timeout=600)
    searched = re.findall(r"find library=(\S+)", done.stderr)
    assert any("dnnl" in one for one in searched)
    assert not [one for one in searched if re.search("mpi|pmix|open-pal", one)]
