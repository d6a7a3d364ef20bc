"""Forms of HLO texts that XLA writes and reads: what becomes of them, and what is refused."""

import numpy as np
import pytest

from tremula import core

pytestmark = pytest.mark.smoke

PARAMETER = "p = f32[2,3] parameter(0)"
SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


def entry(*lines, before=""):
    """A module's text with these instructions, the last one the root."""
    return ("HloModule m\n" + before + "ENTRY e {\n  " + "\n  ".join(lines[:-1]) +
            f"\n  ROOT {lines[-1]}\n}}\n")


# ---- Constants without values ----------------------------------------------------------------------

def test_values_that_were_left_out_are_made_up():
    text = entry("a = f32[40,5] constant({...})", "b = f32[40,5] constant({...})",
                 "t = (f32[3], s32[2,2]) constant(({...}, { {1, 2}, {3, 4} }))",
                 "u = s32[2,2] get-tuple-element(t), index=1",
                 "r = (f32[40,5], f32[40,5], s32[2,2]) tuple(a, b, u)")
    module = core.Module.read(text)
    printed = module.print()
    assert printed.count("{...}") == 3
    assert core.Module.read(printed).print() == printed
    first, second, kept = core.Engine(core.compile(module)).run([])
    again, _, _ = core.Engine(core.compile(core.Module.read(text))).run([])
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)  # equal ones would be one constant, in the plan too
    assert np.abs(first).max() <= 0.5 and first.std() > 0.1
    assert kept.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", ["pred", "s8", "s64", "u16", "f16", "bf16", "f64", "c64", "c128",
                                   "f8e4m3fn", "s4"])
def test_values_of_every_type_are_made_up(dtype):
    value, = core.Engine(core.compile(core.Module.read(
        entry(f"c = {dtype}[200] constant({{...}})")))).run([])
    numbers = value.astype(np.complex128 if dtype[0] == "c" else np.float64)
    assert np.isfinite(numbers).all() and len(set(numbers)) > 1 and np.abs(numbers).max() <= 1


# ---- What XLA's verifier refuses -------------------------------------------------------------------

@pytest.mark.parametrize("lines, what", [
    (("r = f32[2,3] all-reduce(p), replica_groups={{0,1},{3}}, to_apply=sum",),
     "replica group 1 names replica 3"),
    (("r = f32[2,3] all-reduce(p), replica_groups={{0,0}}, to_apply=sum",),
     "replica 0 is in its groups twice"),
    (("r = f32[2,3] collective-permute(p), source_target_pairs={{0,1},{0,2}}",),
     "0 is a source of two pairs"),
    (("r = f32[2,3] collective-permute(p), source_target_pairs={{0,2},{1,2}}",),
     "2 is a target of two pairs"),
    (("s = (f32[2,3], f32[2,3], u32[]) copy-start(p)", "a = f32[2,3] copy-done(s)",
      "b = f32[2,3] copy-done(s)", "r = f32[2,3] add(a, b)"), "copy-start must have one user"),
    (("r = (f32[2,3], f32[2,3], u32[]) copy-start(p)",), "must have one user, which ends it, not 0"),
    (("r = f32[2,3] scan(p), dimensions={0}",), "scan is not supported; write it as a while loop"),
])
def test_refused(lines, what):
    with pytest.raises(core.TremulaError, match=what):
        core.Module.read(entry(PARAMETER, *lines, before=SUM))


def test_literals_of_custom_calls_are_read_over():
    module = core.Module.read(entry(
        "x = f32[2] parameter(0)", 'y = f32[2] custom-call(x), custom_call_target="Sharding", '
        "literal=(f32[2,1] { {1}, {2} }, s32[] 4), sharding={replicated}",
        'z = f32[2] custom-call(y), custom_call_target="Sharding", literal=s32[] -3'))
    values = np.array([1, 2], np.float32)
    result, = core.Engine(core.compile(module)).run([values])
    np.testing.assert_array_equal(result, values)
