"""What the executable cache does, and what it does not let spoil a program."""

import fcntl
import os
import shutil
import signal

import pytest

from cached_program import NUM_PROGRAMS


def files(folder, ending):
    return sorted(folder.rglob("*" + ending))


def test_a_warm_start_lowers_and_compiles_nothing(filled, start):
    folder, cold = filled
    # One program each; three session.run of the first and the last shape again compile nothing.
    assert (cold.lowered, cold.compiled, cold.loaded) == (NUM_PROGRAMS, NUM_PROGRAMS, 0)
    executables = files(folder, ".poplar_exec")
    assert len(executables) == NUM_PROGRAMS
    # Nothing is left behind: locks, unfinished files.
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(
        executables + files(folder, ".hlo"))
    warm = start(folder).finish()
    assert (warm.lowered, warm.compiled, warm.loaded) == (0, 0, NUM_PROGRAMS)
    assert not warm.warnings
    assert files(folder, ".poplar_exec") == executables


def test_damaged_and_foreign_files_are_made_again(filled, start, tmp_path):
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    cut, altered, foreign = files(folder, ".poplar_exec")
    cut.write_bytes(cut.read_bytes()[:-100])
    data = bytearray(altered.read_bytes())
    data[len(data) // 2] ^= 1
    altered.write_bytes(data)
    foreign.write_text("not one of ours\n")
    old, empty, _ = files(folder, ".hlo")
    old.write_bytes(b"TRMLOWR0" + old.read_bytes()[8:])
    empty.write_bytes(b"")
    log = start(folder).finish()
    assert (log.lowered, log.compiled) == (2, NUM_PROGRAMS)
    for path in (cut, altered, foreign, old, empty):
        assert sum(path.name in line and "made again" in line for line in log.warnings) == 1, (
            path, log.text)
    log = start(folder).finish()
    assert (log.lowered, log.compiled) == (0, 0) and not log.warnings


def test_what_a_killed_process_leaves_does_not_matter(filled, start, tmp_path):
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    for path in files(folder, ".poplar_exec"):
        path.rename(path.with_suffix(".poplar_exec.part"))
        path.with_suffix(".compile_lock").touch()
    for path in files(folder, ".hlo"):
        path.rename(path.with_suffix(".hlo.part"))
        path.with_suffix(".hlo.lock").touch()
    log = start(folder).finish()
    assert (log.lowered, log.compiled) == (NUM_PROGRAMS, NUM_PROGRAMS)
    assert not files(folder, ".part") and not files(folder, "lock")


def test_several_processes_compile_once(filled, start, tmp_path):
    del filled  # after it, so that the machine is not busier than it must be
    runs = [start(tmp_path / "cache") for _ in range(2)]
    logs = [one.finish() for one in runs]
    assert sum(log.compiled for log in logs) == NUM_PROGRAMS
    assert sum(log.lowered for log in logs) == NUM_PROGRAMS
    assert sum(log.loaded for log in logs) == NUM_PROGRAMS


def test_a_program_waits_for_whoever_compiles_it(filled, start, tmp_path):
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    path = files(folder, ".poplar_exec")[0]
    kept = path.read_bytes()
    path.unlink()
    with open(path.with_suffix(".compile_lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = start(folder)
        for line in run.process.stderr:
            if "Another process compiles this program" in line:
                break
        else:
            raise AssertionError("it did not wait")
        assert path.name in line
        path.write_bytes(kept)
    log = run.finish()
    assert log.compiled == 0


def test_a_process_killed_while_it_writes(filled, start, tmp_path):
    """The kernel kills it after the first 500 bytes; what it leaves is removed by the next one."""
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    path = files(folder, ".poplar_exec")[0]
    path.unlink()
    known = set(folder.rglob("*"))
    writer = start(folder, "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
                   "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))").process
    writer.communicate(timeout=600)
    assert writer.returncode == -signal.SIGXFSZ
    left = [one for one in folder.rglob("*") if one not in known and one.is_file()]
    assert path.with_suffix(".compile_lock") in left
    assert any(one.stat().st_size == 500 for one in left), left
    runs = [start(folder) for _ in range(2)]
    logs = [one.finish() for one in runs]
    assert sum(log.compiled for log in logs) == 1 and not any(log.lowered for log in logs)
    assert set(folder.rglob("*")) == known | {path}


@pytest.mark.parametrize("first", [
    "",  # the folder cannot be made
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))",  # a full disk
])
def test_a_cache_that_cannot_be_written_is_only_a_warning(start, tmp_path, first):
    folder = tmp_path / "cache"
    if not first:
        folder.write_text("a file\n")
    log = start(folder, first).finish()
    assert log.compiled == NUM_PROGRAMS
    assert any("could not write" in line or "cannot make" in line for line in log.warnings)
    assert not files(tmp_path, ".poplar_exec") and not files(tmp_path, ".part")


def test_what_lies_in_the_place_of_files(filled, start, tmp_path):
    """A FIFO is not waited for, a link is not written through, and what it points to stays."""
    folder, victims = tmp_path / "cache", tmp_path / "victims"
    shutil.copytree(filled[0], folder)
    victims.mkdir()
    (victims / "letter").write_text("dear")
    fifo, part, locked = sorted(files(folder, ".poplar_exec"))
    for one in (fifo, part, locked):
        one.unlink()
    os.mkfifo(fifo)
    part.with_name(part.name + ".part").symlink_to(victims)  # where the next owner tidies up
    os.mkfifo(locked.with_suffix(".compile_lock"))
    lowered = sorted(files(folder, ".hlo"))
    for one in lowered:
        one.unlink()
    os.mkfifo(lowered[0])
    lowered[1].with_name(lowered[1].name + ".lock").symlink_to(victims / "new")
    lowered[2].with_name(lowered[2].name + ".part").symlink_to(victims / "letter")
    log = start(folder).finish()
    assert (log.lowered, log.compiled) == (NUM_PROGRAMS, NUM_PROGRAMS)
    for one in (fifo, locked.with_suffix(".compile_lock")):
        assert any(one.name in line and "not a regular file" in line for line in log.warnings), (
            one, log.text)
    assert os.listdir(victims) == ["letter"] and (victims / "letter").read_text() == "dear"
    log = start(folder).finish()
    assert (log.lowered, log.compiled) == (0, 0)
