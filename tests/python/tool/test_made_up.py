"""tremula run --random, --zeros, --threads, --times: any program is timed without data."""

import pathlib
import re

import ml_dtypes
import numpy as np
import pytest

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"


def copies(*types):
    """A program whose outputs are its inputs."""
    lines = [f"  p{i} = {kind} parameter({i})\n  c{i} = {kind} copy(p{i})"
             for i, kind in enumerate(types)]
    body, names = "\n".join(lines), ", ".join(f"c{i}" for i in range(len(types)))
    return (f"HloModule copies\nENTRY main {{\n{body}\n  ROOT r = ({', '.join(types)}) "
            f"tuple({names})\n}}\n")


def made_up(tool, text, *options):
    """The inputs that a program of copies was given."""
    tool.write("program.hlo", text)
    tool.ok("run", "program.hlo", *options, "--output", "out")
    return [tool.load(f"out/output{i}.npy")
            for i in range(len(list((tool.folder / "out").glob("output*.npy"))))]


def test_random_numbers_of_every_type(tool):
    types = ["f32[100,100]", "f16[10000]", "bf16[10000]", "f64[10000]", "c64[5000]", "s32[10000]",
             "u8[10000]", "pred[10000]", "s64[10000]", "s4[1000]", "u2[1000]", "f32[]", "f32[0,3]"]
    arrays = made_up(tool, copies(*types), "--random")
    arrays[2] = arrays[2].view(ml_dtypes.bfloat16)
    for array in arrays[:5]:
        values = array.astype(np.complex128).ravel()
        values = values.real if array.dtype.kind != "c" else np.r_[values.real, values.imag]
        assert abs(values.mean()) < 0.05 and abs(values.std() - 1) < 0.05
        assert abs((values ** 4).mean() - 3) < 0.4 and np.unique(values).size > 500
    for array, limit in ((arrays[5], 8), (arrays[6], 8), (arrays[7], 2), (arrays[8], 8)):
        assert array.min() == 0 and array.max() == limit - 1
    assert arrays[9].view(np.uint8).max() == 7 and arrays[10].view(np.uint8).max() == 3
    again = made_up(tool, copies(*types), "--random")
    other = made_up(tool, copies(*types), "--random=7")
    np.testing.assert_array_equal(arrays[0], again[0])
    assert (arrays[0] != other[0]).mean() > 0.99 and (arrays[0].ravel() != arrays[3]).all()


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e3m4",
                                  "f8e4m3fnuz", "f8e4m3", "f4e2m1fn", "f8e8m0fnu"])
def test_small_floats_are_near_one(tool, kind):
    text = f"""HloModule small
ENTRY main {{
  p = {kind}[1000] parameter(0)
  ROOT c = f32[1000] convert(p)
}}
"""
    array, = made_up(tool, text, "--random")
    sizes = np.abs(array)
    assert np.isfinite(array).all() and sizes.min() >= 0.5 and sizes.max() <= 2
    assert np.unique(sizes).size == 3 and (kind == "f8e8m0fnu") == (array.min() > 0)


def test_zeros(tool):
    for array in made_up(tool, copies("f32[9]", "s32[9]", "pred[3]", "c64[2]"), "--zeros"):
        assert not array.any()


def test_files_win(tool):
    x = np.full(9, 5, np.float32)
    arrays = made_up(tool, copies("f32[9]", "f32[9]"), "--random", "--input",
                     f"1={tool.save('x.npy', x)}")
    np.testing.assert_array_equal(arrays[1], x)
    assert (arrays[0] != x).all()


# What is done with the input `i` of s32[200], and below what its numbers then are.
INDEXED = {
    "gather": ("""  table = f32[50,4] parameter(1)
  r = f32[200,4] gather(table, i), offset_dims={1}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}""", "f32[200,4]", 50),
    "scatter": ("""  table = f32[30,4] parameter(1)
  rows = f32[200,4] parameter(2)
  r = f32[30,4] scatter(table, i, rows), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum""", "f32[30,4]", 30),
    "one-hot": ("""  wide = s32[200,17] broadcast(i), dimensions={0}
  classes = s32[17] iota(), iota_dimension=0
  counted = s32[200,17] broadcast(classes), dimensions={1}
  r = pred[200,17] compare(wide, counted), direction=EQ""", "pred[200,17]", 17),
    "through moves": ("""  table = f32[6000,4] parameter(1)
  zero = s32[] constant(0)
  zeros = s32[200] broadcast(zero), dimensions={}
  n = s32[] constant(6000)
  ns = s32[200] broadcast(n), dimensions={}
  below = pred[200] compare(i, zeros), direction=LT
  wrapped = s32[200] add(i, ns)
  chosen = s32[200] select(below, wrapped, i)
  column = s32[200,1] reshape(chosen)
  r = f32[200,4] gather(table, column), offset_dims={1}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}""", "f32[200,4]", 6000),
    "dynamic slices in a loop": ("""  table = f32[90] parameter(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  state = (s32[], s32[200], f32[90], f32[]) tuple(zero, i, table, none)
  loop = (s32[], s32[200], f32[90], f32[]) while(state), condition=more, body=step
  r = f32[] get-tuple-element(loop), index=3""", "f32[]", 90),
}
HEAD = """HloModule indices
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
more { p = (s32[], s32[200], f32[90], f32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  most = s32[] constant(200)
  ROOT c = pred[] compare(n, most), direction=LT }
step { p = (s32[], s32[200], f32[90], f32[]) parameter(0)
  n = s32[] get-tuple-element(p), index=0
  i = s32[200] get-tuple-element(p), index=1
  t = f32[90] get-tuple-element(p), index=2
  s = f32[] get-tuple-element(p), index=3
  part = s32[1] dynamic-slice(i, n), dynamic_slice_sizes={1}
  at = s32[] reshape(part)
  found = f32[1] dynamic-slice(t, at), dynamic_slice_sizes={1}
  one = s32[] constant(1)
  m = s32[] add(n, one)
  f = f32[] reshape(found)
  u = f32[] add(s, f)
  ROOT r = (s32[], s32[200], f32[90], f32[]) tuple(m, i, t, u) }
"""


@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_within_bounds(tool, name):
    body, shape, bound = INDEXED[name]
    tool.write("program.hlo", f"""{HEAD}ENTRY main {{
  i = s32[200] parameter(0)
{body}
  same = s32[200] copy(i)
  ROOT all = ({shape}, s32[200]) tuple(r, same)
}}
""")
    tool.ok("run", "program.hlo", "--random", "--output", "out")
    indices = tool.load("out/output1.npy")
    assert 0 <= indices.min() and bound * 0.8 <= indices.max() < bound
    assert np.unique(indices).size > min(bound, 200) * 0.6


def test_infeeds_are_made_up_without_end(tool):
    tool.write("fed.hlo", """HloModule fed
ENTRY main {
  a = (f32[3]) custom-call(), custom_call_target="tremula.infeed", \
custom_call_has_side_effect=true, backend_config={"feed":"q"}
  b = (f32[3]) custom-call(), custom_call_target="tremula.infeed", \
custom_call_has_side_effect=true, backend_config={"feed":"q"}
  x = f32[3] get-tuple-element(a), index=0
  y = f32[3] get-tuple-element(b), index=0
  ROOT r = (f32[3], f32[3]) tuple(x, y)
}
""")
    tool.ok("run", "fed.hlo", "--random", "--repeat", "20", "--output", "out")
    assert len(set(tool.load("out/output0.npy"))) == 3
    np.testing.assert_array_equal(tool.load("out/output0.npy"), tool.load("out/output1.npy"))
    tool.ok("run", "fed.hlo", "--zeros", "--output", "none")
    assert not tool.load("none/output1.npy").any()


def test_times_are_summed_and_what_is_slow_is_named(tool):
    path = tool.write("slow.hlo", """HloModule slow
plus { a = f8e5m2[] parameter(0)  b = f8e5m2[] parameter(1)  ROOT s = f8e5m2[] add(a, b) }
ENTRY main { a = f8e5m2[64,64] parameter(0)  z = f8e5m2[] constant(0)
  w = f8e5m2[60,60] reduce-window(a, z), window={size=5x5}, to_apply=plus
  ROOT t = f8e5m2[60,60] transpose(w), dimensions={1,0}
}
""")
    result = tool("run", path, "--random", "--repeat", "3", "--times", "--threads", "1")
    assert result.returncode == 0 and result.stdout == "", result.stderr
    steps, sums, slow = result.stderr.split("\n\n")
    assert "kernel" in steps and "instruction" in steps
    rows = [re.fullmatch(r" *([\d.]+) +(\d+)? +([\d.]+)%  (\S+)", line).groups()
            for line in sums.splitlines()[1:]]
    assert rows[-1][3] == "all" and rows[-1][2] == "100.0" and len(rows) > 2
    assert sum(float(row[0]) for row in rows[:-1]) == pytest.approx(float(rows[-1][0]), abs=0.01)
    assert len({row[3] for row in rows}) == len(rows)
    assert re.match(r"slow: [\d.]+% of the time is in reference code", slow)
    assert "reference.reduce-window" in slow
    fast = tool("run", tool.write("fast.hlo", copies("f32[1000000]")), "--random", "--times")
    assert "slow:" not in fast.stderr and "all" in fast.stderr


def test_threads_do_not_change_numbers(tool):
    tool.write("dot.hlo", """HloModule dot
ENTRY main {
  a = f32[64,200] parameter(0)
  b = f32[200,32] parameter(1)
  ROOT d = f32[64,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""")
    results = []
    for threads in (1, 2, 3):
        tool.ok("run", "dot.hlo", "--random", "--threads", threads, "--output", "out")
        results.append(tool.load("out/output0.npy"))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("options, words", [
    (["--random=x"], "--random=SEED wants a number"), (["--random", "--zeros"], "choose one"),
    (["--threads", "0"], "--threads wants a number from 1")])
def test_mistakes(tool, options, words):
    tool.write("program.hlo", copies("f32[2]"))
    assert words in tool.fails("run", "program.hlo", *options, code=2)


def test_a_model_without_data_says_which_input_is_missing(tool):
    tool.write("program.hlo", copies("f32[2]"))
    assert "the input 'p0'" in tool.fails("run", "program.hlo")
    assert "there is no file none.hlo" in tool.fails("run", "none.hlo")
