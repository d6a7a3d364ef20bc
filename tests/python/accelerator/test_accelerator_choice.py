"""An engine's own accelerator, its precision, and what is said about what runs where."""

import os

import pytest

from test_accelerator import plugin, run
from test_accelerator_failures import failing  # noqa: F401

START = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f32[128,128] parameter(0)
      d = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[1,1] slice(d), slice={[2:3], [2:3]}  n = f32[] reshape(s)
      c = f32[128,128] rng(n, n), distribution=rng_uniform
      t = f32[128,128] tanh(c)  ROOT r = f32[128,128] multiply(t, d) }'''
    executable = core.compile(core.Module.read(text))
    x = np.diag(np.arange(1, 129)).astype(np.float32)
"""
ENGINES = START + """
    print(executable.accelerator)
    for accelerator in (None, PLUGIN, "", PLUGIN + ":7", PLUGIN):
        try:
            engine = core.Engine(executable, accelerator=accelerator)
            print(engine.accelerated.splitlines(), float(engine.run([x])[0][2, 2]))
        except core.TremulaError as error:
            print(type(error).__name__)
"""
ON_CPU = "on the CPU: 1 step, such as c: the CPU draws its random numbers"


def test_engines_of_one_executable():
    """One is on the accelerator, others are not; one that fails is in nobody's way."""
    done = run(f"PLUGIN = {plugin()!r}\n" + ENGINES.replace("\n    ", "\n"))
    assert done.returncode == 0, done.stderr
    alone, there = "['on an accelerator: 0 regions']", str(["on cpu:0: 2 regions", ON_CPU])
    value = " 9.000"
    assert [line[:-len(line.split()[-1]) - 1] + f" {float(line.split()[-1]):.3f}"
            if "[" in line else line for line in done.stdout.splitlines()] == [
        "None", alone + value, there + value, alone + value, "NotFoundError", there + value]


def test_the_environment_chooses_for_executables():
    """An engine of the CPU's can be made of such an executable too."""
    done = run(f"PLUGIN = {plugin()!r}\n" + ENGINES.replace("\n    ", "\n"), plugin())
    lines = done.stdout.splitlines()
    assert lines[0] == "cpu:0" and lines[1] == lines[2] != lines[3], done.stderr
    assert "0 regions" in lines[3]


PRECISION = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f16[20000] parameter(0)  a = f16[20000] add(x, x)
      b = f16[20000] multiply(a, x)  c = f16[20000] subtract(b, a)
      ROOT d = f16[20000] divide(c, x) }'''
    executable = core.compile(core.Module.read(text))
    x = np.linspace(1, 5, 20000).astype(np.float16)
    for fastest in (False, True):
        engine = core.Engine(executable, fastest=fastest)
        print(hash(engine.run([x])[0].tobytes()), "0 regions" in engine.accelerated)
"""


def test_the_log_says_what_precision():
    done = run(PRECISION, plugin(), POPLAR_LOG_LEVEL="INFO")
    assert done.stderr.count("cpu:0 computes with its fastest precision") == 1
    done = run(PRECISION, plugin(), TREMULA_ACCELERATOR_PRECISION="quick")
    assert "TREMULA_ACCELERATOR_PRECISION is 'quick'; it must be exact or fastest" in done.stderr


NAMES = """
    import numpy as np
    from tremula import core
    module = core.Module.read("HloModule m ENTRY e { x = f32[200,200] parameter(0) "
                              "ROOT y = f32[200,200] add(x, x) }")
    x = np.ones((200, 200), np.float32)
    for name in NAMES:
        engine = core.Engine(core.compile(module), accelerator=name)
        print(name, engine.accelerated.splitlines()[0], engine.run([x])[0].sum())
"""


def test_names_of_plugins(tmp_path):
    """Of each maker's package, in the folder where pip puts it."""
    places = {"cuda": "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
              "rocm": "jax_plugins/xla_rocm7/xla_rocm_plugin.so",
              "xpu": "jax_plugins/intel_extension_for_openxla/pjrt_plugin_xpu.so",
              "tpu": "libtpu/libtpu.so", "other": "somebody/pjrt_c_api_other_plugin.so"}
    for place in places.values():
        (tmp_path / place).parent.mkdir(parents=True)
        os.symlink(plugin(), tmp_path / place)
    text = f"NAMES = {list(places)}\n" + NAMES.replace("\n    ", "\n")
    done = run(text, TREMULA_PLUGIN_PATH=f"/nowhere:{tmp_path}")
    assert done.stdout.splitlines() == [
        f"{name} on cpu:0: 1 region 80000.0" for name in places], done.stderr[-2000:]


# A package that is installed in place: its folder is not in sys.path, and a finder knows it.
IN_PLACE = """
    import importlib.util, sys

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            places = {"acme": f"{ELSEWHERE}/acme", "bad": f"{ELSEWHERE}/bad"}
            if name in places:
                return importlib.util.spec_from_file_location(
                    name, f"{places[name]}/__init__.py", submodule_search_locations=[places[name]])

    sys.meta_path.append(Finder)
    sys.path.append(SITE)
    import numpy as np
    from tremula import core
    module = core.Module.read("HloModule m ENTRY e { x = f32[200,200] parameter(0) "
                              "ROOT y = f32[200,200] add(x, x) }")
    try:
        engine = core.Engine(core.compile(module), accelerator="acme")
        print(engine.accelerated.splitlines()[0])
    except core.TremulaError as error:
        print(type(error).__name__, error)
"""
NONE = ("NotFoundError TREMULA_ACCELERATOR is 'acme', but no PJRT plugin of that name is "
        "installed. Install one")


@pytest.mark.parametrize("library, words", [
    ("never", "on cpu:0: 1 region"), ("old", "FailedPreconditionError The accelerator's plugin"),
    ("text", "NotFoundError The accelerator's plugin cannot be loaded"), ("missing", NONE)])
def test_entry_points(failing, tmp_path, library, words):  # noqa: F811
    """Of two, one names a package that cannot be imported, and is in nobody's way."""
    site, package = tmp_path / "site", tmp_path / "elsewhere/acme"
    info = site / "acme-1.0.dist-info"
    for folder in (info, package, tmp_path / "elsewhere/bad"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (tmp_path / "elsewhere/bad/__init__.py").write_text("raise OSError('broken')")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[jax_plugins]\nbad = bad.part\ngone = gone.away\nacme = acme:initialize\n")
    path = package / "pjrt_c_api_acme_plugin.so"
    if library == "text":
        path.write_text("no library")
    elif library != "missing":
        path.symlink_to(failing[0])
    settings = f"ELSEWHERE, SITE = {str(tmp_path / 'elsewhere')!r}, {str(site)!r}\n"
    done = run(settings + IN_PLACE.replace("\n    ", "\n"), **failing[1], FAILING_HOW=library)
    assert done.stdout.startswith(words), done.stdout + done.stderr
    assert str(path) in done.stdout or library in ("never", "missing")


PRODUCT = """
    from tremula import core
    module = core.Module.read("HloModule m ENTRY e { x = f32[128,128] parameter(0)  ROOT d = "
        "f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "algorithm=dot_tf32_tf32_f32 }")
    core.compile(module)
    print(core.Module.read_file(PROGRAM).print())
"""


@pytest.mark.parametrize("precision, is_highest", [("exact", True), ("fastest", False)])
def test_products_of_float32(failing, tmp_path, precision, is_highest):  # noqa: F811
    """They ask for float32, so that no GPU takes TF32, unless the user wants what is fastest."""
    path = str(tmp_path / "program")
    done = run(f"PROGRAM = {path!r}\n" + PRODUCT.replace("\n    ", "\n"), failing[0], **failing[1],
               FAILING_HOW="programs", FAILING_PROGRAM=path,
               TREMULA_ACCELERATOR_PRECISION=precision)
    assert " dot(" in done.stdout, done.stderr[-2000:]
    assert ("operand_precision={highest,highest}" in done.stdout) == is_highest
    assert "algorithm" not in done.stdout
