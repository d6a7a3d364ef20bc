"""What compilations write down: progress bars, tensor maps, schedules, XLA's dumps, log lines.

Each test is a process of its own, because the environment says what is wanted.
"""

import json
import os
import pty
import re
import subprocess
import sys
import textwrap

import interpreter
import pytest
from built import ROOT
from tremula import core

PROGRAM = """
    import numpy as np, tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = tf.placeholder(tf.float32, [4, 4])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(lambda a: {body}, [x])
    with tf.Session() as session:
        print(session.run(y, {{x: np.ones([4, 4])}})[0])
"""
PRODUCTS = "tf.reduce_sum(" + "@".join(["tf.tanh(a)"] * 6) + ")"
BAR = re.compile(r"\x1b\[2K\[(#*)( *)\] (\d+)% ([A-Z][\w: -]+) "
                 r"\[Elapsed: \d\d:\d\d:\d\d\.\d\]([\r\n]+)")


def command(text, environment):
    """(the arguments of Python, the environment) for a program."""
    return (["-c", "import tremula._finder\n" + textwrap.dedent(text)],
            {**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment})


@pytest.fixture
def script():
    """As the usual one, but carriage returns stay what they are."""
    def run_script(text, **environment):
        return interpreter.run(*command(text, environment), newline="")
    return run_script


def run(script, body=PRODUCTS, **environment):
    done = script(PROGRAM.format(body=body), **environment)
    assert done.returncode == 0, done.stderr
    return done


def bars_of(text):
    """(filled, percent, stage, how the line ends) of each time that the bar was drawn."""
    found = [(len(filled), len(filled + empty), int(percent), stage, end)
             for filled, empty, percent, stage, end in BAR.findall(text)]
    assert all(width == 50 and filled == percent // 2
               for filled, width, percent, _, _ in found)
    return [(percent, stage, end) for _, _, percent, stage, end in found]


def test_a_progress_bar(script):
    text = run(script, TF_POPLAR_FLAGS="--show_progress_bar=true").stderr
    assert text.count("Compiling module program:\n") == 1
    drawn = bars_of(text)
    assert drawn[-1] == (100, "Compilation Finished", "\n")
    assert all(end == "\r" for _, _, end in drawn[:-1])
    assert [percent for percent, _, _ in drawn] == sorted(percent for percent, _, _ in drawn)


@pytest.mark.parametrize("flags, rank", [("", "0"), ("--show_progress_bar=false", "0"),
                                         ("--show_progress_bar=true", "1")])
def test_no_progress_bar_where_nobody_looks(script, flags, rank):
    """Of several instances the first shows it."""
    text = run(script, TF_POPLAR_FLAGS=flags, OMPI_COMM_WORLD_RANK=rank,
               OMPI_COMM_WORLD_SIZE="2").stderr
    assert "Compiling module" not in text and not bars_of(text)


def test_the_line_of_a_bar_ends_when_compiling_fails(script):
    done = script("""
        import numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            y = ipu.ipu_compiler.compile(lambda x: tf.matmul(x, x), [tf.zeros([20000, 20000])])
        with tf.Session() as session:
            try:
                session.run(y)
            except tf.errors.InternalError as error:
                print("refused:", error.message)
    """, TF_POPLAR_FLAGS="--show_progress_bar=true")
    assert "graph_memory_allocation_error" in done.stdout, done.stderr
    drawn = bars_of(done.stderr)
    assert drawn[-1][0] < 100 and drawn[-1][1].startswith("Step: ") and drawn[-1][2] == "\n"


def test_bars_of_several_compilations_at_once(script):
    done = script("""
        import threading, numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        x = tf.placeholder(tf.float32, [4, 4])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            all = [ipu.ipu_compiler.compile(lambda a, i=i: tf.matmul(a, a) + float(i), [x])
                   for i in range(6)]
        with tf.Session() as session:
            def one(y):
                session.run(y, {x: np.ones([4, 4])})
            threads = [threading.Thread(target=one, args=[y]) for y in all]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
    """, TF_POPLAR_FLAGS="--show_progress_bar=true")
    assert done.returncode == 0, done.stderr
    names = set(re.findall(r"Compiling module (\w+):\n", done.stderr))
    assert len(names) == 6
    ends = [one for one in bars_of(done.stderr) if one[2] == "\n"]
    assert ends == [(100, "Compilation Finished", "\n")] * 6


@pytest.mark.parametrize("body, shown", [(PRODUCTS, True), ("a @ a", False)])
def test_auto_looks_for_a_terminal_and_a_program_that_takes_long(body, shown):
    """Five products and more take long; on a pseudo-terminal."""
    mine, its = pty.openpty()
    arguments, environment = command(PROGRAM.format(body=body),
                                     {"TF_POPLAR_FLAGS": "--show_progress_bar=auto"})
    process = subprocess.Popen([sys.executable, *arguments], env=environment,
                               stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    text = b""
    try:
        while block := os.read(mine, 4096):
            text += block
    except OSError:  # the other end is closed
        pass
    os.close(mine)
    assert process.wait(timeout=600) == 0
    assert (b"Compiling module program:" in text) == shown, text
    assert (b"100% Compilation Finished" in text) == shown


def test_a_tensor_map(script, tmp_path):
    folder = tmp_path / "new" / "maps"
    run(script, "tf.matmul(a, a) + a", TF_POPLAR_FLAGS=f"--tensor_map_file_path={folder}")
    [file] = folder.iterdir()
    assert file.name == "program.tensor_map.json"
    mappings = json.loads(file.read_text())["mappings"]
    tensors = [tensor for computation in mappings.values() for tensor in computation]
    by_name = {tensor[0]: tensor for tensor in tensors}
    assert len({(tensor[0], tensor[1]) for tensor in tensors}) == len(tensors)
    _, leaf, shape, dtype, constant, aliases, elements, tiles, name = by_name["arg0.1"]
    assert (leaf, shape, dtype, constant, aliases, elements) == (0, [4, 4], "float", 0, 0, 16)
    assert sum(count for _, count in tiles) == 16 and name == "XLA_Args/Placeholder"
    assert all(0 <= tile < 1472 for tensor in tensors for tile, _ in tensor[7])


def dumped_module(data):
    """The text of the module of a HloProto, whose field 1 holds the module. It is read in a
    HloSnapshot too."""
    assert data[0] == 1 << 3 | 2
    end = next(at for at in range(1, len(data)) if data[at] < 128) + 1
    module = core.Module.read(data[end:]).print()
    length = sum((byte & 127) << 7 * at for at, byte in enumerate(data[1:end]))
    assert end + length == len(data)
    lengths = bytes([len(data) & 127 | 128, len(data) >> 7 & 127 | 128, len(data) >> 14])
    assert core.Module.read(data).print() == module
    assert core.Module.read(data[:1] + lengths + data).print() == module
    return module


def test_xla_dumps(script, tmp_path):
    run(script, "tf.tanh(a) @ a", XLA_FLAGS=f"--xla_dump_to={tmp_path}/d --xla_dump_hlo_as_text "
        "--xla_dump_hlo_as_dot --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=^fuse$")
    files = {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()}
    kinds = ("txt", "dot", "hlo.pb")
    for what in ("before_optimizations", "after_optimizations"):
        assert all(f"module_0000.program.{what}.{kind}" in files for kind in kinds)
    between = re.compile(r"module_0000\.program\.(\d{4})\.optimization\.after_(\S+)\.before_(\S+)"
                         r"\.(txt|dot|hlo\.pb)")
    boundaries = sorted({match.groups()[:3] for match in map(between.fullmatch, files) if match})
    assert [before for _, _, before in boundaries][0] == "fuse"
    assert [after for _, after, _ in boundaries][1] == "fuse"
    assert int(boundaries[1][0]) == int(boundaries[0][0]) + 1
    assert len(boundaries) == 2 and len(files) == (2 + 2) * len(kinds)
    before = files["module_0000.program.before_optimizations.txt"].decode()
    assert before.startswith("HloModule program") and "tanh(" in before and "dot(" in before
    assert dumped_module(files["module_0000.program.before_optimizations.hlo.pb"]) == before
    graph = files["module_0000.program.before_optimizations.dot"].decode()
    assert graph.startswith("digraph") and graph.endswith("}\n") and graph.count("->") >= 2


@pytest.mark.parametrize("flags, wanted", [
    ("--xla_dump_to={}", {"before_optimizations.txt", "after_optimizations.txt"}),
    ("--xla_dump_to={} --xla_dump_hlo_module_re=no_such", set()),
    ("--xla_dump_to={} --xla_dump_hlo_as_dot --xla_dump_hlo_module_re=prog",
     {"before_optimizations.dot", "after_optimizations.dot"})])
def test_which_xla_dumps(script, tmp_path, flags, wanted):
    run(script, "a @ a", XLA_FLAGS=flags.format(tmp_path))
    assert {path.name.split(".", 2)[2] for path in tmp_path.iterdir()} == wanted


def test_xla_flags_in_a_file_and_dumps_to_the_standard_output(script, tmp_path):
    (tmp_path / "flags").write_text("--xla_dump_to=-\n--xla_dump_hlo_as_text\n")
    out = run(script, "a @ a", XLA_FLAGS=str(tmp_path / "flags")).stdout
    assert "*** Begin module_0000.program.before_optimizations.txt ***\nHloModule" in out
    assert "*** End module_0000.program.after_optimizations.txt ***" in out


def places(graph):
    """The instructions in the order that the schedule gives them."""
    found = [(int(place), name) for place, name in re.findall(r'label="#(\d+) ([\w.-]+)', graph)]
    return [name for _, name in sorted(found)]


def test_a_schedule_goes_where_xlas_dumps_go(script, tmp_path):
    run(script, "tf.reduce_sum(a @ a) + a[0, 0]", TF_POPLAR_FLAGS="--dump_schedule_as_dot",
        XLA_FLAGS=f"--xla_dump_to={tmp_path}")
    graph = (tmp_path / "module_0000.program.schedule.dot").read_text()
    order = places(graph)
    assert order.index(next(one for one in order if one.startswith("dot"))) < order.index(
        next(one for one in order if one.startswith("reduce") or one.startswith("fusion")))
    assert graph.count("color=grey") == len(order) - 1


def test_the_fallback_scheduler_keeps_the_order_of_the_module(script, tmp_path):
    run(script, "[tf.reduce_sum(tf.sin(a @ a)), tf.reduce_max(a), tf.cos(a) @ a]",
        TF_POPLAR_FLAGS="--dump_schedule_as_dot --fallback_scheduler",
        XLA_FLAGS=f"--xla_dump_to={tmp_path}")
    order = places((tmp_path / "module_0000.program.schedule.dot").read_text())
    text = (tmp_path / "module_0000.program.after_optimizations.txt").read_text()
    written = [name for name in re.findall(r"^  (?:ROOT )?%([\w.-]+) = ",
                                           text[text.index("ENTRY"):], re.M) if name in order]
    steps = [name for name in order if name in written]
    assert len(written) >= 4 and steps == written


def test_a_schedule_without_a_folder_and_a_tensor_map_that_cannot_be_written(script):
    text = run(script, "a @ a", TF_POPLAR_FLAGS="--dump_schedule_as_dot "
               "--tensor_map_file_path=/proc/nowhere").stderr
    assert 'digraph "program" {' in text and places(text)
    assert "cannot write /proc/nowhere/program.tensor_map.json" in text


def test_detail_of_the_log(script, tmp_path):
    flags = f"--executable_cache_path={tmp_path}"
    first = run(script, TF_POPLAR_FLAGS=flags, TF_CPP_VMODULE="poplar_compiler=1").stderr
    assert re.search(r"tremula/src/tf/watch\.c:\d+\] Begin XLA compilation: program", first)
    assert "Loaded program from" not in first and "Executing" not in first
    again = run(script, TF_POPLAR_FLAGS=flags, TF_CPP_VMODULE=",other=1,,poplar_*=2").stderr
    assert re.search(r"tremula/src/tf/unit_build\.c:\d+\] Loaded program from \S+\.poplar_exec",
                     again)
    assert re.search(r"observe\.c:\d+\] Executing program on /device:IPU:0", again)
    assert "Begin XLA compilation" not in run(script, TF_CPP_VMODULE="poplar_executor=1").stderr


def test_poplibs_tells_what_was_planned(script, tmp_path):
    text = run(script, "tf.tanh(a) @ a", POPLIBS_LOG_LEVEL="INFO").stderr
    lines = [line for line in text.splitlines() if " PL:POPLIBS " in line]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z PL:POPLIBS +\d+\.\d+ I: ", line)
               for line in lines)
    assert any(re.search(r"matmul \(dot[\w.]*\): .*tiles.*; \d+ cycles, \d+ temporary bytes", line)
               for line in lines)
    assert re.search(r"planned program: \d+ cycles, \d+ bytes on the fullest tile", lines[-1])
    log = tmp_path / "log"
    more = run(script, "tf.tanh(a) @ a", POPLIBS_LOG_LEVEL="TRACE", POPLIBS_LOG_DEST=str(log))
    assert "PL:POPLIBS" not in more.stderr
    assert " D: " in log.read_text() and " T: OnTileExecute" in log.read_text()
    run(script, POPLIBS_LOG_LEVEL="INFO", POPLAR_LOG_LEVEL="DEBUG", POPLIBS_LOG_DEST=str(log),
        POPLAR_LOG_DEST=str(log))  # of one file
    lines = log.read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z P[LO]:[A-Z]+ +\d", line) for line in lines)
    assert {"PL", "PO"} == {line.split()[1][:2] for line in lines}


NOT_CONFIGURED = """
    import numpy as np, tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    from tensorflow.python import ipu
    x = tf.placeholder(tf.float32, [4, 4])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(lambda a: a @ a, [x])
    with tf.Session() as session:
        try:
            print(session.run(y, {x: np.ones([4, 4])})[0][0])
        except tf.errors.InvalidArgumentError as error:
            print("refused:", error.message)
"""


def test_flags_act_where_nobody_configures(script):
    done = script(NOT_CONFIGURED, TF_POPLAR_FLAGS="--use_ipu_model --log_cycle_count=0 "
                  "--show_progress_bar=true")
    assert done.stdout == "[4. 4. 4. 4.]\n", done.stderr
    assert "No IPU device was configured for /device:IPU:0" in done.stderr
    assert "attached to no IPU" in done.stderr and "Cycle count: " in done.stderr
    assert "100% Compilation Finished" in done.stderr


def test_wrong_flags_are_told_where_nobody_configures(script):
    done = script(NOT_CONFIGURED, TF_POPLAR_FLAGS="--use_ipu_modl")
    assert re.match(r"refused: .*Unknown flag '--use_ipu_modl'.*'--use_ipu_model'", done.stdout)
