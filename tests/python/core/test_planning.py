"""tremula.planning: the estimate's totals from Python. And tremula.jax without JAX."""

import pathlib
import subprocess
import sys

import pytest

from tremula import core, planning

pytestmark = pytest.mark.smoke

TEXT = """HloModule net
ENTRY main {
  x = f32[64,256] parameter(0), metadata={op_name="x"}
  w = f32[256,512] parameter(1)
  v = f32[512,256] parameter(2)
  h = f32[64,512] dot(x, w), \
lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="a/dot"}
  t = f32[64,512] tanh(h), metadata={op_name="a/tanh"}
  ROOT y = f32[64,256] dot(t, v), \
lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="b/dot"}
}
"""


@pytest.fixture(name="executable", scope="module")
def fixture_executable():
    return core.compile(core.Module.read(TEXT))


def test_totals_add_up(executable):
    plan = planning.plan(executable)
    kinds = ("compute", "copy", "exchange", "global_exchange", "host", "collective", "sync",
             "control")
    assert sum(getattr(plan, f"{kind}_cycles") for kind in kinds) == (
        plan.cycles + plan.overlapped_cycles)
    assert plan.fits and plan.num_ipus == 1 and plan.bytes_per_tile == 638976
    assert plan.weights_bytes == 2 * 256 * 512 * 4
    assert plan.seconds == pytest.approx(plan.cycles / 1.33e9, rel=0.01)
    assert [layer.name for layer in plan.layers if layer.flops] == ["a", "b"]
    assert sum(layer.flops for layer in plan.layers) == plan.flops
    assert isinstance(plan.notes, list) and "fits" in plan.explain(with_advice=False).lower()


def test_as_the_command_line_prints_it(executable):
    text = str(planning.plan(executable))
    assert text.splitlines()[1].split() == ["fits", "yes"] and "cycles" in text


def test_the_machine_is_the_compiled_one_unless_said():
    bow = core.compile(core.Module.read(TEXT), target="bow")
    assert planning.plan(bow).seconds == planning.plan(bow, "bow").seconds
    assert planning.plan(bow).target is None and planning.plan(bow, "mk2").target == "mk2"


def test_other_machines_and_shards(executable):
    one, two = planning.plan(executable), planning.plan(executable, ipus=2)
    assert two.num_ipus == 2 and two.global_exchange_cycles > 0 == one.global_exchange_cycles
    assert planning.plan(executable, "bow").seconds < one.seconds
    assert planning.plan(executable, "mk1").bytes_per_tile < one.bytes_per_tile
    assert "2 IPUs" in str(two)


@pytest.mark.parametrize("arguments, words", [
    ({"ipus": 0}, "no multiple"), ({"ipus": 64}, "shards"), ({"target": "none"}, "none")])
def test_what_cannot_be_planned(executable, arguments, words):
    with pytest.raises(core.TremulaError, match=words):
        planning.plan(executable, **arguments)


def test_options_of_the_executable_count():
    small = core.compile(core.Module.read(TEXT), tiles_per_ipu=32)
    plan = planning.plan(small)
    assert plan.tiles_per_ipu == 32
    assert plan.cycles > planning.plan(core.compile(core.Module.read(TEXT))).cycles


@pytest.mark.parametrize("version, words", [
    (None, "pip install 'jax"), ("0.4.20", "0.4.30 or newer; this is 0.4.20")])
def test_without_a_jax_that_fits(version, words):
    module = "None" if version is None else f"types.SimpleNamespace(__version__={version!r})"
    python = str(pathlib.Path(__file__).resolve().parents[3] / "python")
    result = subprocess.run(
        [sys.executable, "-c", "import sys, types\n"
         f"sys.path.insert(0, {python!r}); sys.modules['jax'] = {module}\nimport tremula.jax"],
        capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 1 and words in result.stderr.splitlines()[-1]
