"""tremula run on an accelerator: why the CPU computes some steps, and the rate in reports. A third
party's CPU plugin stands for the accelerator."""

import importlib.util
import pathlib

import pytest

PACKAGE = "lammps_jax_pjrt_cpu"
PROGRAM = """HloModule m
ENTRY e { x = f32[128,128] parameter(0)
  d = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1,1] slice(d), slice={[2:3], [2:3]}  n = f32[] reshape(s)
  c = f32[128,128] rng(n, n), distribution=rng_uniform
  t = f32[128,128] tanh(c)  ROOT r = f32[128,128] multiply(t, d) }
"""
REASON = "the CPU draws its random numbers"


@pytest.fixture(scope="module")
def plugin():
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        pytest.skip(f"{PACKAGE} is not installed: no PJRT plugin to try")
    return str(pathlib.Path(spec.origin).parent / "pjrt_c_api_cpu_plugin.so")


def test_why_a_step_stays_on_the_cpu(tool, plugin):
    arguments = ("run", tool.write("m.hlo", PROGRAM), "--zeros", "--accelerator", plugin)
    lines = tool(*arguments).stderr.splitlines()
    assert lines == ["on cpu:0: 2 regions", f"on the CPU: 1 step, such as c: {REASON}"]
    times = tool(*arguments, "--times").stderr
    assert f"%c = f32[128,128] rng(...)  on the CPU: {REASON}\n" in times
    assert " stay on the CPU" in tool(*arguments, POPLAR_LOG_LEVEL="INFO").stderr


def test_a_report_says_whose_rate_was_measured(tool, plugin):
    fastest = "; cpu:0 at its fastest precision: "
    for name, precision, words in (("", "", "; this CPU: "), (plugin, "", "; cpu:0: "),
                                   (plugin, "fastest", fastest)):
        options = f'{{"autoReport.all":"true","autoReport.directory":"{tool.folder}"}}'
        tool.ok("run", tool.write("m.hlo", PROGRAM), "--zeros", "--repeat", "3",
                POPLAR_ENGINE_OPTIONS=options, TREMULA_ACCELERATOR=name,
                TREMULA_ACCELERATOR_PRECISION=precision)
        profile, = tool.folder.rglob("profile.pop")
        last = tool.ok("report", profile).splitlines()[-1]
        assert words in last and last.endswith(" runs/s")
        profile.unlink()
