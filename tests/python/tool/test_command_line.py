"""Subcommands, help, messages and exit codes."""

import os
import pathlib
import shlex
import re
import signal
import subprocess
import time

import pytest

SUM = """HloModule sum

ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[3] parameter(1)
  wide = f32[2,3] broadcast(y), dimensions={1}
  ROOT s = f32[2,3] add(x, wide)
}
"""


@pytest.mark.smoke
def test_help_and_version(tool):
    assert re.fullmatch(r"tremula \d+\.\d+\.\d+\n", tool.ok("--version"))
    text = tool.ok("--help")
    for command in ("compile", "run", "print", "report", "view", "ops"):
        assert f"tremula {command}" in text
        assert tool.ok(command, "--help").startswith(f"usage: tremula {command}")


def test_where_poplars_headers_lie(tool):
    folder = pathlib.Path(tool.ok("poplar", "--prefix").strip())
    assert (folder / "include/poplar/Graph.hpp").is_file()
    assert f"export PATH={shlex.quote(str(folder / 'bin'))}" in tool.ok("poplar", "--env")
    assert "enable.sh" in tool.ok("poplar", "--help")


def test_help_lists_options_and_passes(tool):
    text = tool.ok("compile", "--help")
    assert "optimise=true" in text and "fold-constants" in text


@pytest.mark.parametrize("arguments, message", [
    ([], "say what to do"),
    (["frob"], "'frob' is not a command"),
    (["compile"], "say which MODEL to compile"),
    (["compile", "m"], "say where to write the executable: -o FILE"),
    (["compile", "m", "n", "-o", "x"], "one model at a time: unexpected 'n'"),
    (["compile", "m", "-o"], "-o wants a value"),
    (["compile", "m", "--frob"], "unknown option --frob"),
    (["compile", "m", "-o", "x", "--option", "key"], "--option wants KEY=VALUE, not 'key'"),
    (["compile", "m", "--dump-after", "nothing"], "'nothing' is not a pass"),
    (["run"], "say which one executable or MODEL to run"),
    (["run", "x", "--repeat", "0"], "--repeat wants a number from 1 on, not '0'"),
    (["run", "x", "--seed", "-1"], "--seed wants a number from 0 on, not '-1'"),
    (["print"], "say which one MODEL to print"),
    (["ops", "x"], "unexpected argument 'x'"),
    (["compile", "-x=3", "m"], "unknown option -x"),
    (["plan", "--json=1", "m"], "--json=1 takes no value"),
    (["compile", "m", "-o", "x", "-o", "y"], "--output is given twice"),
    (["compile", "m", "-o", "x", "--target", "mk1", "--option", "target=mk2"],
     "the option target is set twice"),
    (["run", "x", "--repeat", "2", "--repeat", "3"], "--repeat is given twice"),
    (["print", "m", "--signature", "a", "--signature", "b"], "--signature is given twice"),
    (["check", "m", "--signature", "a", "--signature", "b"], "--signature is given twice"),
    (["plan", "m", "--batch", "2", "--batch", "4"], "--batch is given twice"),
    (["plan", "m", "--html", "a", "--html", "b"], "--html is given twice"),
    (["plan", "m", "--what-if", "batch=2", "--what-if", "batch=4"],
     "--what-if batch=N is given twice"),
    (["plan", "m", "--option", "recompute=true", "--option", "recompute=false"],
     "the option recompute is set twice"),
    (["plan", "m", "--option", "available_memory_proportion=1", "--sweep",
      "availableMemoryProportion=0:1"], "available_memory_proportion sets what --sweep changes"),
    (["plan", "m", "--target", "mk1,,mk2"], "--target wants names such as mk1,mk2"),
    (["report", "m", "--html", "a", "--html", "b"], "--html is given twice"),
    (["report", "m", "--options"], "--options stands alone"),
    (["report", "--options", "--json"], "--options stands alone"),
    (["view", "m", "--port", "1", "--port", "2"], "--port is given twice"),
    (["trace", "m", "-o", "a", "-o", "b"], "--output is given twice"),
    (["poplar"], "say --env or --prefix"),
    (["poplar", "--env", "x"], "say --env or --prefix"),
    (["poplar", "--frob"], "unknown option --frob"),
])
def test_usage_errors(tool, arguments, message):
    command = arguments[0] if arguments and arguments[0] != "frob" else ""
    text = tool.fails(*arguments, code=2)
    assert text.startswith(message)
    assert text.endswith(f"(see tremula {command + ' ' if command else ''}--help)")


def test_failures_name_the_file(tool):
    assert "there is no file missing.hlo" in tool.fails("compile", "missing.hlo", "-o", "x")
    assert "missing" in tool.fails("run", "missing.poplar_exec")
    source = tool.write("sum.hlo", SUM)
    assert "the input 'x'" in tool.fails("run", source)
    assert "'reference' " not in tool.fails("compile", source, "-o", "x", "--option", "frob=1")
    assert "must be true or false" in tool.fails("compile", source, "-o", "x", "--option",
                                                 "reference=maybe")
    assert "no_folder/x" in tool.fails("compile", source, "-o", "no_folder/x")


def test_files_of_tremula_that_are_no_model(tool):
    executable = tool.compile(SUM)
    tool.ok("compile", "program.hlo", "-o", "x.poplar_exec",
            POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}')
    profile, = tool.folder.glob("tf_report__*")
    assert tool.fails("trace", profile).startswith(f"{profile} has no run to export")
    for command in (["plan"], ["compile", "-o", "y"], ["run"], ["print"]):
        for path in (profile, profile / "profile.pop"):
            assert "is a profile or a timeline: tremula report" in tool.fails(*command, path)
    for command in (["plan"], ["compile", "-o", "y"]):
        assert "is an executable, compiled already" in tool.fails(*command, executable)
    assert "--shape" in tool.fails("print", executable, "--shape", "x=1")
    (tool.folder / "folder").mkdir()
    tool.ok("run", executable, "--zeros", POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}')
    ran, = {*tool.folder.glob("tf_report__*")} - {profile}
    assert "cannot write folder: Is a directory" in tool.fails("trace", ran, "-o", "folder")
    tool.ok("trace", profile, ran, "-o", "both.json")


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["plan", "--help"]])
def test_what_cannot_be_printed_is_a_failure(tool, command):
    done = tool(*command, before=lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1))
    assert done.returncode == 1 and "cannot write to the standard output" in done.stderr


@pytest.mark.parametrize("command", [["plan", "m.keras"], ["compile", "m.keras", "-o", "x"],
                                     ["check", "x.py"], ["view", "profile"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_python_too(tool, command, number):
    """Nothing is printed, no file is left, and Python does not go on alone."""
    for name in ("m.keras", "x.py", "profile"):
        tool.write(name, "")
    (tool.folder / "temporary").mkdir()
    python = tool.folder / "python"
    python.write_text("#!/bin/sh\necho $$ > sign.new; mv sign.new sign; exec sleep 600\n")
    python.chmod(0o755)
    program = tool("--version").args[0]
    process = subprocess.Popen(  # a test run in the background may ignore SIGINT
        ["env", "--default-signal=INT", program, *command], cwd=tool.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        env={**tool.environment, "TREMULA_PYTHON": str(python),
             "TMPDIR": str(tool.folder / "temporary")})
    while not (tool.folder / "sign").exists():
        assert process.poll() is None
        time.sleep(.01)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=600)  # the pipe ends when Python has ended
    assert (process.returncode, output) == (-number, "")
    assert not list((tool.folder / "temporary").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_as_python_begins(tool, number):
    """The processor is shared with a busy process, so Python often runs before its parent does."""
    tool.write("m.keras", "")
    python = tool.folder / "python"
    python.write_text(f"#!/bin/sh\nkill -{int(number)} $PPID\nexec sleep 60\n")
    python.chmod(0o755)
    command = ["env", "--default-signal=INT", tool("--version").args[0], "compile", "m.keras",
               "-o", "x"]
    processor = min(os.sched_getaffinity(0))

    def share():
        os.sched_setaffinity(0, {processor})

    endless = ["sh", "-c", "while kill -0 $PPID 2>&1; do :; done"]  # but not without this process
    with subprocess.Popen(endless, preexec_fn=share) as busy:
        try:
            for _ in range(10):
                done = subprocess.run(command, cwd=tool.folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True,
                                      env={**tool.environment, "TREMULA_PYTHON": str(python)},
                                      preexec_fn=share)
                assert (done.returncode, done.stdout) == (-number, "")
        finally:
            busy.kill()


def test_an_altered_executable_is_refused(tool):
    name = tool.compile(SUM)
    data = bytearray((tool.folder / name).read_bytes())
    data[-1] ^= 1
    (tool.folder / name).write_bytes(data)
    assert "damaged" in tool.fails("run", name)
    (tool.folder / name).write_bytes(data[:-5])
    assert "cut short" in tool.fails("run", name)


def test_options_that_do_nothing_yet_say_so(tool):
    source = tool.write("sum.hlo", SUM)
    listed = tool.ok("compile", "--help")
    result = tool("compile", source, "-o", "x", "--ipus", "2", "--option", "optimise=false")
    assert result.returncode == 0
    idle = re.search(r"  ipus=1\n.*nothing acts on it yet", listed) is not None
    assert ("note: ipus=2" in result.stderr) == idle
    assert "optimise" not in result.stderr


@pytest.mark.smoke
def test_dumps_can_be_read_again(tool):
    source = tool.write("sum.hlo", SUM)
    before = tool.ok("compile", source, "--dump-after", "inline")
    assert before.startswith("// after inline\nHloModule sum") and before.count("// after") == 1
    assert "add(" in before
    every = tool.ok("compile", source, "--dump-after=all")
    names = re.findall(r"^// after (\S+)$", every, re.M)
    assert names[:2] == ["synchronous", "inline"] and "fuse" in names
    assert len(names) == len(set(names))
    again = tool.write("again.hlo", before)
    assert tool.ok("compile", again, "--dump-after", "inline") == before


def listed_passes(tool):
    return re.search(r"^Passes:\n(.*)", tool.ok("compile", "--help"), re.M | re.S)[1]


@pytest.mark.smoke
def test_every_listed_pass_can_be_dumped(tool):
    source = tool.write("sum.hlo", SUM)
    every = tool.ok("compile", source, "--dump-after=all")
    shown = re.findall(r"^// after (\S+)$", every, re.M)
    names = [name for line in listed_passes(tool).splitlines() if line.startswith("  ")
             for name in line.split()]
    # Only option allow_recompute, a pipeline or an accelerator decides what these three do.
    assert shown == names and "recompute" in shown and "accelerate" in shown


def test_the_passes_of_the_estimate_can_be_dumped(tool):
    source = tool.write("sigmoid.hlo", "HloModule sigmoid\n\nENTRY main {\n  x = f32[64] "
                        "parameter(0)\n  ROOT s = f32[64] logistic(x)\n}\n")
    stated = tool.ok("compile", source, "--dump-after=library-calls")
    assert stated.startswith("// after library-calls\nHloModule sigmoid")
    assert stated.count("// after") == 1
    assert '/*library: word="sigmoid",vertices="Nonlinearity"*/' in stated
    tool.ok("print", tool.write("again.hlo", stated))


def test_print_is_what_was_read(tool):
    source = tool.write("sum.hlo", SUM)
    text = tool.ok("print", source)
    again = tool.write("again.hlo", text)
    assert tool.ok("print", again) == text
    executable = tool.compile(SUM)
    assert "fusion(" in tool.ok("print", executable)
    plain = tool.compile(SUM, "plain", "--option", "optimise=false")
    assert "fusion(" not in tool.ok("print", plain)


def test_hlo_opcodes(tool):
    rows = [line.split() for line in tool.ok("ops", "--hlo").splitlines()]
    assert rows[0] == ["opcode", "operands", "class", "kernel"]
    assert ["add", "2", "BINARY", "yes"] in rows
    assert ["while", "1", "CONTROL", "-"] in rows


def test_without_python(tool):
    message = tool.fails("ops", TREMULA_PYTHON="/no/such/python")
    assert "cannot run /no/such/python" in message and "TREMULA_PYTHON" in message
    folder = tool.folder / "model"
    folder.mkdir()
    assert "cannot run" in tool.fails("compile", "model", "-o", "x", TREMULA_PYTHON="/no/python")
