"""Instances on two hosts, which are namespaces of this machine (hosts.py): with a wire, with a slow
one, with one that loses packets or is cut for a while; and what a death on the other host does."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
TWO = ("--host", "h0,h1", "--num-instances", "2")


@pytest.fixture
def start(two_hosts, mpi_poprun, python_environment):
    """start(option or argument...): poprun on h0, which reaches h1 by ssh."""
    environment = {**mpi_poprun.environment, **python_environment, **two_hosts.environment}
    if " " in environment["TREMULA_MPIRUN"]:
        pytest.skip("Open MPI does not start itself on another host from a path with a space")
    (mpi_poprun.folder / "run").mkdir()

    def begin(*arguments):
        return subprocess.Popen(
            two_hosts.command(0, *mpi_poprun.command, *TWO, *map(str, arguments)),
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return begin


def end(job):
    """The output of a job that must succeed."""
    output, errors = job.communicate(timeout=600)
    assert job.returncode == 0, output + errors
    return output


def sums(start, count):
    return start("--num-replicas=2", sys.executable, HERE / "sums.py", count)


def test_two_hosts(two_hosts, start):
    two_hosts.wire()
    lines = sorted(end(sums(start, 30)).splitlines())
    assert [re.sub(r"pid \d+", "pid N", line) for line in lines] == [
        "[1,0]<stdout>: done", "[1,0]<stdout>: instance 0 (host h0, pid N), 1 on it: here",
        "[1,1]<stdout>: done", "[1,1]<stdout>: instance 1 (host h1, pid N), 1 on it: here"]


@pytest.mark.long
def test_death_on_the_other_host(two_hosts, start):
    two_hosts.wire()
    job = sums(start, 10 ** 9)
    here = [job.stdout.readline() for _ in range(2)]
    pid = int(re.search(r"host h1, pid (\d+)", "".join(here))[1])
    os.kill(pid, signal.SIGKILL)
    _, errors = job.communicate(timeout=600)
    assert job.returncode == 128 + signal.SIGKILL
    # mpirun may have begun a line for instance 0, which has said nothing more.
    assert errors.splitlines()[-1].endswith(
        f"poprun: instance 1 (host h1, pid {pid}) was ended by signal 9 (Killed)")
    for one in here:
        assert not pathlib.Path("/proc", re.search(r"pid (\d+)", one)[1]).exists()


@pytest.mark.long
def test_the_wire_is_cut_for_a_while(two_hosts, start):
    """The system sends again what did not come."""
    two_hosts.wire()
    job = sums(start, 20000)
    assert all(job.stdout.readline().endswith("here\n") for _ in range(2))
    two_hosts.set_link("down")
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(timeout=5)
    two_hosts.set_link("up")
    assert end(job).count("done") == 2


def train(start, folder, kind):
    """training.py on both hosts; the results of each."""
    end(start("--num-replicas=4", "--mpi-local-args=-x OMP_NUM_THREADS=2", sys.executable,
              HERE / "training.py", folder / f"{kind}-%d.npz", "several"))
    return [np.load(folder / f"{kind}-{index}.npz") for index in (0, 1)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["slow", "lossy"])
def test_same_bits(two_hosts, start, tmp_path, kind):
    """As of four replicas in one process."""
    lost = two_hosts.wire("20mbit") if kind == "slow" else two_hosts.lossy_wire(50)
    several = train(start, tmp_path, kind)
    assert lost is None or lost() > 20
    subprocess.run([sys.executable, HERE / "training.py", tmp_path / "one-%d.npz", "one"],
                   check=True, timeout=600,
                   env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path / "run")})
    one = np.load(tmp_path / "one-0.npz")
    for index, got in enumerate(several):
        for name in one.files:
            wanted = one[name][:, index * 2:index * 2 + 2] if name == "losses" else one[name]
            assert got[name].tobytes() == wanted.tobytes(), (index, name)
