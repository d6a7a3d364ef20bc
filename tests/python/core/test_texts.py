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


# ---- Constants without values --------------------------------------------------------------------

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


def test_a_tuple_that_was_left_out_is_made_up():
    """As XLA prints every constant that is a tuple."""
    module = core.Module.read(entry("c = (f32[9], (s32[], ()), f32[9]) constant({...})"))
    printed = module.print()
    assert core.Module.read(printed).print() == printed
    first, number, second = core.Engine(core.compile(module)).run([])
    assert number.shape == () and not np.array_equal(first, second)


@pytest.mark.parametrize("dtype", ["pred", "s8", "s64", "u16", "f16", "bf16", "f64", "c64", "c128",
                                   "f8e4m3fn", "s4"])
def test_values_of_every_type_are_made_up(dtype):
    value, = core.Engine(core.compile(core.Module.read(
        entry(f"c = {dtype}[200] constant({{...}})")))).run([])
    numbers = value.astype(np.complex128 if dtype[0] == "c" else np.float64)
    assert np.isfinite(numbers).all() and len(set(numbers)) > 1 and np.abs(numbers).max() <= 1


# ---- What XLA's verifier refuses -----------------------------------------------------------------

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
    (("r = (f32[2,3], f32[2,3], u32[]) copy-start(p)",),
     "must have one user, which ends it, not 0"),
    (("r = f32[2,3] scan(p), dimensions={0}",), "scan lacks its attribute 'to_apply'"),
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


# ---- Sizes that are known at run time ------------------------------------------------------------

A = np.arange(1, 31, dtype=np.float32).reshape(6, 5)
A[4, :] = np.nan  # beyond the sizes below: must not be seen
CUT = ("p = f32[6,5] parameter(0)", "n = s32[] parameter(1)",
       "d = f32[<=6,5] set-dimension-size(p, n), dimensions={0}", "z = f32[] constant(0)")


def run_cut(size, *lines, reference=False):
    """What a program that begins with CUT gives for A and a size."""
    module = core.Module.read(entry(*CUT, *lines, before=SUM))
    printed = module.print()
    assert "f32[<=6,5]" in printed
    for again in (core.Module.read(printed), core.Module.read(module.serialize())):
        assert again.print() == printed
    engine = core.Engine(core.compile(module, reference=reference))
    return engine.run([A, np.array(size, np.int32)])


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_dynamic_reshape_has_a_size(size):
    """Of an array with a size, and of one without."""
    total, number, static = run_cut(
        size, "one = s32[] constant(1)", "five = s32[] constant(5)", "m = s32[] multiply(n, five)",
        "e2 = f32[<=30] dynamic-reshape(d, m)", "f2 = f32[<=6,5] dynamic-reshape(e2, n, five)",
        "g = f32[<=6,5] dynamic-reshape(p, n, five)", "h = f32[<=6,5] add(f2, g)",
        "v = f32[5] reduce(h, z), dimensions={0}, to_apply=sum",
        "k = s32[] get-dimension-size(e2), dimensions={0}",
        "s = f32[30,1] dynamic-reshape(p, m, one)",
        "r = (f32[5], s32[], f32[30,1]) tuple(v, k, s)")
    np.testing.assert_allclose(total, 2 * A[:size].sum(axis=0))
    assert number == 5 * size
    np.testing.assert_array_equal(static, A.reshape(30, 1))


@pytest.mark.parametrize(("line", "message"), [
    ("r = f32[5,<=6] dynamic-reshape(d, five, n)", "makes another dimension dynamic"),
    ("r = f32[30] dynamic-reshape(d, n)", "makes an array static by dynamic-reshape"),
    ("r = f32[<=7,5] dynamic-reshape(d, n, five)", "number of elements must stay"),
    ("r = f32[<=6,5] dynamic-reshape(d, n)", "has 1 sizes for f32"),
    ("r = f32[<=6,5] dynamic-reshape(d, n, z)", "operand 2 must be an integer"),
])
def test_dynamic_reshapes_that_are_refused(line, message):
    with pytest.raises(Exception, match=message):
        run_cut(3, "five = s32[] constant(5)", line)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_reductions_end_at_the_size(size, reference):
    total, number = run_cut(
        size, "e2 = f32[<=6,5] negate(d)", "t = f32[5,<=6] transpose(e2), dimensions={1,0}",
        "u = f32[5,1,<=6] reshape(t)", "v = f32[5,1] reduce(u, z), dimensions={2}, to_apply=sum",
        "m = s32[] get-dimension-size(t), dimensions={1}", "r = (f32[5,1], s32[]) tuple(v, m)",
        reference=reference)
    np.testing.assert_allclose(total[:, 0], -A[:size].sum(axis=0))
    assert number == size


@pytest.mark.parametrize("reference", [False, True])
def test_products_end_at_the_size(reference):
    square, rows = run_cut(
        3, "s = f32[5,5] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "g = f32[<=6,<=6] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "v = f32[] reduce(g, z), dimensions={0,1}, to_apply=sum",
        "r = (f32[5,5], f32[]) tuple(s, v)", reference=reference)
    np.testing.assert_allclose(square, A[:3].T @ A[:3], rtol=1e-6)
    np.testing.assert_allclose(rows, (A[:3] @ A[:3].T).sum(), rtol=1e-6)


def test_sizes_begin_and_end_at_custom_calls():
    padded, rows, columns = run_cut(
        4, 'c = f32[<=6,5] custom-call(p, n, n), custom_call_target="SliceToDynamic"',
        "a = f32[<=6,5] add(c, d)", 'r = (f32[6,5], s32[], s32[]) custom-call(a), '
        'custom_call_target="PadToStatic"')
    assert (rows, columns) == (4, 5)
    np.testing.assert_array_equal(padded[:4], 2 * A[:4])


@pytest.mark.parametrize("lines, what", [
    (("r = f32[<=6,5] negate(d)",), "of dynamic size; return the custom call PadToStatic"),
    (("c = f32[<=12,5] concatenate(d, d), dimensions={0}",
      "r = f32[5] reduce(c, z), dimensions={0}, to_apply=sum"), "joins arrays along a dynamic"),
    (("c = f32[<=3,5] slice(d), slice={[0:3],[0:5]}",
      "r = f32[5] reduce(c, z), dimensions={0}, to_apply=sum"), "cuts or regroups a dynamic"),
    (("c = f32[<=6,5] reverse(d), dimensions={0}",
      "r = f32[5] reduce(c, z), dimensions={0}, to_apply=sum"), "takes an array of dynamic size"),
    (("c = f32[<=6] parameter(2)", "r = f32[] reduce(c, z), dimensions={0}, to_apply=sum"),
     "has a dimension whose size nothing says"),
])
def test_sizes_that_cannot_be_followed_are_refused(lines, what):
    with pytest.raises(core.TremulaError, match=what):
        core.compile(core.Module.read(entry(*CUT, *lines, before=SUM)))
