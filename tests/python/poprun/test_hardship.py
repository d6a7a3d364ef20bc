"""What instances survive, and how they end: many kills, a stop, two jobs, more instances than
cores. They take minutes, so `make test-all` runs them."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.long

SUMS = pathlib.Path(__file__).parent / "sums.py"


def processes(word):
    """Numbers of the processes that have this word on their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has ended meanwhile
    return found


@pytest.fixture
def start(mpi_poprun, python_environment):
    """start(instances, count, *options): poprun, and the word by which its processes are found."""
    places = {name: str(mpi_poprun.folder / name) for name in ("shared", "tmp")}
    for place in places.values():
        os.mkdir(place)
    environment = {**mpi_poprun.environment, **python_environment, "TMPDIR": places["tmp"],
                   "OMPI_MCA_btl_sm_backing_directory": places["shared"]}

    def begin(instances, count, *options):
        word = f"mark-{os.getpid()}-{time.monotonic_ns()}"
        job = subprocess.Popen(
            [*mpi_poprun.command, f"--num-instances={instances}", f"--num-replicas={instances}",
             *options, sys.executable, SUMS, str(count), word], cwd=mpi_poprun.folder,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return job, word

    return begin


def instances_of(word):
    """The processes of Python, which begin with an interpreter; those of poprun do not."""
    return [pid for pid in processes(word)
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(
                sys.executable.encode())]


def test_a_hundred_kills(mpi_poprun, start):
    """Of a random instance at a random moment: poprun names it, and nothing is left."""
    moments = random.Random(16)
    for kill in range(100):
        job, word = start(2, 10 ** 9)
        assert [job.stdout.readline().endswith("here\n") for _ in range(2)] == [True, True]
        time.sleep(moments.random() / 10)
        victim = moments.choice(instances_of(word))
        os.kill(victim, signal.SIGKILL)
        _, errors = job.communicate(timeout=600)
        assert job.returncode == 128 + signal.SIGKILL, errors
        assert re.search(rf"instance \d \(host .*, pid {victim}\) was ended by signal 9", errors)
        assert not processes(word), kill
        for place in ("shared", "tmp"):
            assert not list((mpi_poprun.folder / place).rglob("*")), (kill, place)
    assert mpi_poprun.ok("--num-replicas=16", "true") == ""  # all IPUs are free again


def test_a_stopped_instance_goes_on(start):
    """After a minute the others say whom they wait for; nobody fails."""
    job, word = start(2, 3000)
    assert [job.stdout.readline().endswith("here\n") for _ in range(2)] == [True, True]
    stopped = instances_of(word)[0]
    os.kill(stopped, signal.SIGSTOP)
    warning = job.stderr.readline()
    while " has waited for 60 s" not in warning:
        assert warning, "no warning"
        warning = job.stderr.readline()
    os.kill(stopped, signal.SIGCONT)
    output, errors = job.communicate(timeout=600)
    assert job.returncode == 0 and output.count("done") == 2, errors


def test_two_jobs_on_one_inventory(start):
    """At once, with IPUs of their own."""
    jobs = [start(2, 2000)[0] for _ in range(2)]
    for job in jobs:
        output, errors = job.communicate(timeout=600)
        assert job.returncode == 0 and output.count("done") == 2, errors


def test_more_instances_than_cores(start):
    job, _ = start(8, 200)
    output, errors = job.communicate(timeout=600)
    assert job.returncode == 0 and output.count("done") == 8, errors
