"""Files that cannot be written, or not to their end: what they are for goes on if it can, one
message says why, and nothing half written is left. TREMULA_WRITES is how many failing writes are
tried; the default takes every fourth."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess

import pytest

from test_damaged_profiles import MODULE
import pva

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROFILED = {"POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'}
WHOLE = {"archive.a", "framework.json", "profile.pop", "vars.capnp"}


@pytest.fixture
def program(tool):
    tool.write("looped.hlo", MODULE)
    tool.ok("compile", "looped.hlo", "-o", "x", "--option", "tiles_per_ipu=4")
    return tool


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    """The path of tests/data/failing_writes.c, compiled."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("preload") / "failing_writes.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, ROOT / "tests/data/failing_writes.c",
                    "-ldl"], check=True)
    return path


def limited(tool, size, *arguments, **environment):
    """A run whose files cannot have more than `size` bytes."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return tool(*arguments, before=limit, **environment)


def expect_profile_or_warning(tool, done, known):
    """The program went on; there is a whole profile, or one warning and nothing new."""
    assert done.returncode == 0, done
    new = set(os.listdir(tool.folder)) - known
    reports = [name for name in new if name.startswith("tf_report__")]
    warnings = [line for line in done.stderr.splitlines() if "No profile of looped" in line]
    assert len(reports) + len(warnings) == 1, done.stderr
    assert new <= {*reports, "debug.cbor"}, new
    for name in reports:
        assert {*os.listdir(tool.folder / name)} == WHOLE
        report = pva.openReport(str(tool.folder / name))
        assert report.compilation.programs
        assert all(run.cycles > 0 for run in report.execution.runs)
        shutil.rmtree(tool.folder / name)
    if warnings:
        assert "cannot" in warnings[0], warnings
    return bool(warnings)


def test_profiles_on_a_disk_that_becomes_full(program):
    """Each file in turn is the first that does not fit."""
    known, failed = set(os.listdir(program.folder)), []
    for size in (0, 1, 300, 1000, 3000, 40000, 1 << 20):
        done = limited(program, size, "run", "x", **PROFILED)
        failed.append(expect_profile_or_warning(program, done, known))
        if (program.folder / "debug.cbor").exists():
            (program.folder / "debug.cbor").unlink()
    assert failed[0] and not failed[-1], failed


def test_profiles_with_every_write_failing(program, preload):
    known = set(os.listdir(program.folder))
    step = 1 if "TREMULA_WRITES" in os.environ else 4
    for number in range(1, int(os.environ.get("TREMULA_WRITES", "100")), step):
        done = program("run", "x", "--repeat", "2", LD_PRELOAD=str(preload), FAIL_AT=str(number),
                       **PROFILED)
        failed = expect_profile_or_warning(program, done, known)
        if (program.folder / "debug.cbor").exists():
            (program.folder / "debug.cbor").unlink()
        if not failed and "no more runs" not in done.stderr:
            break
    else:
        assert "TREMULA_WRITES" in os.environ, "more writes than tried"
    assert number > 20


@pytest.mark.parametrize("where", ["/proc/nowhere", "file/below", "/dev/full/x"])
def test_profiles_in_no_folder(program, where):
    program.write("file", "")
    known = set(os.listdir(program.folder))
    done = program("run", "x", POPLAR_ENGINE_OPTIONS='{"autoReport.outputGraphProfile":"true",'
                   f'"autoReport.directory":"{where}"}}')
    assert expect_profile_or_warning(program, done, known)
    assert where.split("/x")[0] in done.stderr


def test_debug_information_in_the_place_of_others(program):
    """A link is not written through, a FIFO not waited for."""
    path, victim = program.folder / "debug.cbor", program.folder / "victim"
    victim.write_text("dear")
    for lay in (lambda: path.symlink_to(victim), lambda: os.mkfifo(path)):
        lay()
        known = set(os.listdir(program.folder))
        assert not expect_profile_or_warning(program, program("run", "x", **PROFILED), known)
        assert victim.read_text() == "dear"
        assert path.is_file() and not path.is_symlink()
        path.unlink()
    path.mkdir()
    done = program("run", "x", **PROFILED)
    assert expect_profile_or_warning(program, done, set(os.listdir(program.folder)))
    assert "debug.cbor" in done.stderr


def test_executables_and_arrays(program, preload):
    program.write("kept", "what was there")
    for make in (lambda: limited(program, 100, "compile", "looped.hlo", "-o", "kept"),
                 lambda: program("compile", "looped.hlo", "-o", "kept", LD_PRELOAD=str(preload),
                                 FAIL_AT="1")):
        done = make()
        assert done.returncode == 1 and "cannot write kept: " in done.stderr, done
        assert (program.folder / "kept").read_text() == "what was there"
    done = limited(program, 100, "run", "x", "--output", "out")
    assert done.returncode == 1 and done.stderr.startswith("tremula: cannot write "), done
    assert not list((program.folder / "out").iterdir())
    assert not [name for name in os.listdir(program.folder) if name.startswith(".tremula")]


def test_devices_are_written_to_and_not_replaced(program):
    message = program.fails("compile", "looped.hlo", "-o", "/dev/full")
    assert message == "cannot write /dev/full: No space left on device"
    before = os.stat("/dev/null")
    program.ok("compile", "looped.hlo", "-o", "/dev/null")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    os.mkfifo(program.folder / "fifo")
    assert "cannot write fifo" in program.fails("compile", "looped.hlo", "-o", "fifo")


def test_executables_in_the_place_of_a_fifo(program):
    os.mkfifo(program.folder / "fifo")
    assert "not a regular file" in program.fails("run", "fifo")
