"""poprun over Open MPI: outputs, ends, signals, and that nothing is left behind."""

import os
import pathlib
import re
import signal
import subprocess
import time

TWO = ("--num-instances=2", "--num-replicas=2")


def processes(word):
    """The processes whose command line has this word."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path)
        except OSError:
            pass  # it has ended meanwhile
    return found


def test_output_and_place(mpi_poprun):
    text = mpi_poprun.ok(*TWO, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, "
                                          "$POPDIST_REPLICA_INDEX_OFFSET, $TREMULA_DEVICE_ID")
    assert sorted(text.splitlines()) == ["[1,0]<stdout>: 0 of 2, 0, 0",
                                         "[1,1]<stdout>: 1 of 2, 1, 1"]


def test_first_failure(mpi_poprun):
    """The others get SIGTERM, and the time to end."""
    script = ('if [ $OMPI_COMM_WORLD_RANK = 1 ]; then until [ -e ready ]; do sleep 0.1; done; '
              'kill -9 $$; fi; trap "sleep 2; echo ended > end; exit 0" TERM; touch ready; '
              'sleep 600 & wait')
    result = mpi_poprun(*TWO, "sh", "-c", script)
    assert result.returncode == 128 + signal.SIGKILL
    assert re.fullmatch(r"poprun: instance 1 \(host .*, pid \d+\) was ended by signal 9 \(Killed\)",
                        result.stderr.splitlines()[-1])
    assert (mpi_poprun.folder / "end").read_text() == "ended\n"


def test_signals_reach_all(mpi_poprun):
    word = f"mark-{os.getpid()}"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        job = subprocess.Popen(
            [*mpi_poprun.command, *TWO, "sh", "-c", "echo here; sleep 600 & wait", word],
            cwd=mpi_poprun.folder, env=mpi_poprun.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        assert [job.stdout.readline().endswith("here\n") for _ in range(2)] == [True, True]
        job.send_signal(number)
        _, errors = job.communicate(timeout=600)
        while processes(word):  # poprun itself waits for them, unless it was killed
            assert number == signal.SIGKILL
            time.sleep(0.1)
        if number != signal.SIGKILL:
            assert job.returncode == 128 + number
            assert "poprun: all instances were ended by signal" in errors
    assert mpi_poprun.ok("--num-replicas=16", "true") == ""  # all IPUs are free again
