"""tremula.core: the C API by ctypes."""

import pathlib
import subprocess
import sys
import threading
import venv

import numpy as np
import pytest

from tremula import core

pytestmark = pytest.mark.smoke

ADD = """HloModule add, input_output_alias={ {1}: (0, {}, may-alias) }
ENTRY main {
  a = f32[2] parameter(0)
  b = (f32[2], s32[]) parameter(1)
  c = f32[2] get-tuple-element(b), index=0
  n = s32[] get-tuple-element(b), index=1
  s = f32[2] add(a, c)
  m = s32[] add(n, n)
  ROOT r = (s32[], f32[2]) tuple(m, s)
}
"""

FEEDS = """HloModule feeds
ENTRY main {
  in = (f32[2]) custom-call(), custom_call_target="tremula.infeed", custom_call_has_side_effect=true, backend_config={"feed":"i"}
  x = f32[2] get-tuple-element(in), index=0
  y = f32[2] add(x, x)
  out = () custom-call(y), custom_call_target="tremula.outfeed", custom_call_has_side_effect=true, backend_config={"feed":"o"}
  ROOT r = () tuple()
}
"""

A = np.array([1, 2], np.float32)
B = np.array([10, 20], np.float32)
N = np.array(3, np.int32)


@pytest.fixture(name="add")
def fixture_add():
    return core.compile(core.Module.read(ADD))


def test_interface_of_an_executable(add):
    assert [(info.dtype.name, info.shape) for info in add.inputs] == [
        ("float32", (2,)), ("float32", (2,)), ("int32", ())]
    assert [(info.dtype.name, info.shape) for info in add.outputs] == [
        ("int32", ()), ("float32", (2,))]
    assert add.aliases == [-1, 0]
    assert add.feeds == []
    assert "ENTRY" in add.print()


def test_run(add):
    engine = core.Engine(add)
    for _ in range(2):
        m, s = engine.run([A, B, N])
        assert m == 6 and s.tolist() == [11, 22]
    mine = [np.zeros((), np.int32), np.zeros(2, np.float32)]
    m, s = engine.run([A, B, N], versions=[1, 0, 0], outputs=mine)
    assert m is mine[0] and s is mine[1] and s.tolist() == [11, 22]


def test_results_begin_at_cache_lines(add):
    engine = core.Engine(add)
    for _ in range(4):
        assert all(array.ctypes.data % 64 == 0 for array in engine.run([A, B, N]))


def test_inputs_that_are_not_dense(add):
    wide = np.array([[1, 0], [2, 0]], np.float32)
    assert core.Engine(add).run([wide[:, 0], B, N])[1].tolist() == [11, 22]


def test_reference_kernels_give_the_same():
    executable = core.compile(core.Module.read(ADD), reference=True, optimise=False)
    assert core.Engine(executable).run([A, B, N])[1].tolist() == [11, 22]


def test_module_forms():
    module = core.Module.read(ADD, "add.hlo")
    module.verify()
    assert core.Module.read(module.print()).print() == module.print()
    assert core.Module.read(module.serialize()).print() == module.print()


def test_save_and_load(add, tmp_path):
    path = tmp_path / "add.poplar_exec"
    add.save(path)
    for again in (core.Executable.load(path), core.Executable.deserialize(add.serialize())):
        assert again.aliases == add.aliases
        assert core.Engine(again).run([A, B, N])[1].tolist() == [11, 22]
    with pytest.raises(core.DataLossError):
        core.Executable.deserialize(add.serialize()[:-3])


def test_a_loaded_program_has_the_ids_of_the_compiled_one():
    """Random numbers, and instances of which one compiles for all, go by them."""
    data = pathlib.Path(__file__).resolve().parents[2] / "data/hlo"
    for name in ("tf215_train", "tf221_lstm"):
        compiled = core.compile(core.Module.read_file(data / f"{name}.hlo"))
        assert core.Executable.deserialize(compiled.serialize()).print() == compiled.print()


def test_times(add):
    engine = core.Engine(add)
    engine.time_steps()
    engine.run([A, B, N])
    assert "add" in engine.print_times()


@pytest.mark.parametrize("inputs, words", [
    ([A, B], "3 inputs are wanted, not 2"),
    ([A, B, np.float32(3)], r"input 2 must be int32\[\], not float32\[\]"),
    ([A, np.zeros(3, np.float32), N], r"input 1 must be float32\[2\], not float32\[3\]"),
])
def test_inputs_are_checked(add, inputs, words):
    with pytest.raises(core.InvalidArgumentError, match=words):
        core.Engine(add).run(inputs)


def test_errors_have_classes_and_words():
    with pytest.raises(core.InvalidArgumentError) as raised:
        core.Module.read("HloModule x\nENTRY main { ROOT r = f32[] nonsense() }", "mine.hlo")
    assert raised.value.status == 3 and "mine.hlo" in str(raised.value)
    with pytest.raises(core.InvalidArgumentError, match="Did you mean 'reference'"):
        core.compile(core.Module.read(ADD), referense=True)
    with pytest.raises(core.NotFoundError):
        core.Module.read_file("/nowhere/x.hlo")


def test_feeds():
    executable = core.compile(core.Module.read(FEEDS))
    assert [(feed.id, feed.kind, feed.elements[0].shape) for feed in executable.feeds] == [
        ("i", "infeed", (2,)), ("o", "outfeed", (2,))]
    engine = core.Engine(executable)
    infeed = core.Infeed(executable.feeds[0].elements, depth=2)
    outfeed = core.Outfeed([(np.float32, (2,))])
    engine.bind("i", infeed)
    engine.bind("o", outfeed)
    assert infeed.push(A) and infeed.push(B) and not infeed.push(A)
    engine.run()
    engine.run()
    (taken,) = outfeed.take()
    assert taken.tolist() == [[2, 4], [20, 40]]
    assert outfeed.take()[0].shape == (0, 2)
    infeed.end()
    with pytest.raises(core.OutOfRangeError, match="end of sequence"):
        engine.run()
    infeed.reset()
    assert infeed.push(A)


def test_cancelling_a_run():
    executable = core.compile(core.Module.read(FEEDS))
    engine = core.Engine(executable)
    engine.bind("i", core.Infeed(executable.feeds[0].elements))
    engine.bind("o", core.Outfeed(executable.feeds[1].elements, keep_last=True))
    raised = []

    def run():
        try:
            engine.run()
        except core.CancelledError as error:
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    engine.cancel()  # whether the run has begun or not
    thread.join()
    assert raised


def test_import_loads_no_tensorflow():
    subprocess.run([sys.executable, "-c", "import sys\nfrom tremula import core\ncore.version()\n"
                    "assert 'tensorflow' not in sys.modules"], check=True, timeout=600)


def test_a_process_has_one_library():
    """The one that it has already, wherever a second one would be."""
    subprocess.run([sys.executable, "-c", "import ctypes, os\nfrom tremula import core\n"
                    "ctypes.CDLL(core.library_path())\n"
                    "os.environ['TREMULA_LIBRARY_DIR'] = '/nowhere'\n"
                    "core.version()"], check=True, timeout=600)


def test_what_builds_finds_packages_outside_of_pips_own_environment(tmp_path):
    environment, overlay = tmp_path / "the environment", tmp_path / "overlay"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          capture_output=True, text=True, check=True).stdout.strip()
    pathlib.Path(site, "tensorflow").mkdir()
    pathlib.Path(site, "tensorflow/__init__.py").touch()
    package = overlay / "lib/site-packages/onednn_devel_cpu_gomp-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: onednn-devel-cpu-gomp\n")
    (package / "RECORD").write_text("../../include/oneapi/dnnl/dnnl.h,,\n")
    header = overlay / "include/oneapi/dnnl/dnnl.h"  # which Python 3.12 looks for
    header.parent.mkdir(parents=True)
    header.touch()
    # As pip does it: its folder first, and nothing of the environment that it installs into.
    (package.parent / "sitecustomize.py").write_text(
        f"import sys\nsys.path = [one for one in sys.path if one != {site!r}]\n")
    script = pathlib.Path(__file__).parents[3] / "cmake/find_packages.py"
    found = subprocess.run([python, script], env={"PYTHONPATH": str(package.parent)},
                           capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [str(overlay), f"{site}/tensorflow/include"]


def test_an_editable_install_has_its_libraries_elsewhere(tmp_path, monkeypatch):
    folder = tmp_path / "packages/tremula/lib"
    folder.mkdir(parents=True)
    (tmp_path / "packages/tremula-9.9.dist-info").mkdir()
    (tmp_path / "packages/tremula-9.9.dist-info/METADATA").write_text("Name: tremula\n")
    (folder / "libtremula.so.0").touch()
    monkeypatch.delenv("TREMULA_LIBRARY_DIR", raising=False)
    monkeypatch.setattr(core, "__file__", str(tmp_path / "clone/python/tremula/core.py"))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    assert core.library_path() == str(folder / "libtremula.so.0")
