"""Programs of newer XLA and JAX: scaled-dot, their protos, trees of calls, forms of texts."""

import pathlib

import numpy as np
import pytest
from hlo_texts import matrix, run

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
BOUND = {"f32": 2e-5, "f64": 1e-12, "c64": 2e-5}


def test_sort_as_jax_writes_it(tool):
    """Two keys, of floats whose zeros are equal and whose NaNs come last."""
    x = np.array([[0.0, -0.0, np.nan, 1, -np.inf], [2, 2, 2, 1, 1],
                  [-np.nan, np.nan, 3, -0.0, 0.0], [5, 4, 3, 2, 1]], np.float32)
    y = np.array([[3, 1, 0, 5, 2], [9, 7, 8, 2, 1], [1, 0, 4, 6, 2], [0, 0, 0, 0, 0]], np.int32)
    tool.ok("compile", DATA / "proto/sort_jax012.pb", "-o", "sort.poplar_exec")
    tool.ok("run", "sort.poplar_exec", "--input", f"0={tool.save('x.npy', x)}", "--input",
            f"1={tool.save('y.npy', y)}", "--output", "out")
    order = np.stack([np.lexsort((y[r], np.nan_to_num(x[r], nan=np.inf), np.isnan(x[r])))
                      for r in range(4)])
    for i, value in enumerate((x, y)):
        np.testing.assert_array_equal(tool.load(f"out/output{i}.npy"),
                                      np.take_along_axis(value, order, 1))


@pytest.mark.parametrize("result", ["f32", "f16"])
def test_scaled_dot_is_a_dot_of_scaled_operands(tool, result):
    a, b = matrix("f32", 2, 6, 8), matrix("f32", 2, 8, 4, seed=1)
    sa, sb = np.exp2(np.arange(8)).reshape(2, 1, 4), np.exp2(-np.arange(8)).reshape(2, 2, 2)
    sa, sb = sa.astype(np.float32), sb.astype(np.float32)
    out, = run(tool, f"""HloModule scaled
ENTRY main {{
  a = f32[2,6,8] parameter(0)
  b = f32[2,8,4] parameter(1)
  sa = f32[2,1,4] parameter(2)
  sb = f32[2,2,2] parameter(3)
  ROOT r = {result}[2,6,4] scaled-dot(a, b, sa, sb), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
""", a, b, sa, sb)

    def wide(s, shape):
        return np.kron(s, np.ones(np.array(shape) // np.array(s.shape)))

    wanted = np.einsum("bik,bkj->bij", a * wide(sa, a.shape), b * wide(sb, b.shape))
    np.testing.assert_allclose(out, wanted, rtol=1e-5 if result == "f32" else 2e-3, atol=1e-2)


def test_functions_by_opcode_and_by_the_names_of_xlas_builder(tool):
    names = ["acos", "asin", "atanh", "acosh", "asinh", "cosh", "sinh"]
    targets = ["Acos", "Asin", "Atan", "Acosh", "Asinh", "Cosh"]
    lines = [f"  y{n} = f32[5] {n}({'big' if n == 'acosh' else 'x'})" for n in names]
    lines += [f"  z{t} = f32[5] custom-call({'big' if t == 'Acosh' else 'x'}), "
              f"custom_call_target=\"xla_builder.math.{t}\"" for t in targets]
    parts = [f"y{n}" for n in names] + [f"z{t}" for t in targets]
    body = "\n".join(lines)
    x = np.array([-0.9, -0.3, 0.0, 0.2, 0.7], np.float32)
    program = tool.compile(f"""HloModule functions
ENTRY main {{
  x = f32[5] parameter(0)
  big = f32[5] parameter(1)
{body}
  ROOT all = f32[65] concatenate({', '.join(parts)}), dimensions={{0}}
}}
""")
    tool.ok("run", program, "--input", f"x={tool.save('x.npy', x)}", "--input",
            f"big={tool.save('b.npy', x + 2)}", "--output", "out")
    wide = x.astype(np.float64)
    wanted = [getattr(np, {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "atanh": "arctanh",
                           "acosh": "arccosh", "asinh": "arcsinh"}.get(n, n))(
                               (x + 2).astype(np.float64) if n == "acosh" else wide)
              for n in names + [t.lower() for t in targets]]
    np.testing.assert_allclose(tool.load("out/output0.npy"), np.concatenate(wanted), rtol=1e-6)


@pytest.mark.parametrize("body", ["add(a, b)", "add(a, a)"])
def test_a_tree_of_calls_is_refused_before_it_is_written_out(tool, body):
    levels = ["c0 {\n  p = f32[] parameter(0)\n  ROOT n = f32[] negate(p)\n}"]
    levels += [f"c{i} {{\n  p = f32[] parameter(0)\n  a = f32[] call(p), to_apply=c{i - 1}\n"
               f"  b = f32[] call(p), to_apply=c{i - 1}\n  ROOT s = f32[] {body}\n}}"
               for i in range(1, 40)]
    entry = "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c39\n}"
    tool.write("tree.hlo", "HloModule tree\n" + "\n".join(levels) + "\n" + entry)
    message = tool.fails("compile", "tree.hlo", "-o", "tree.poplar_exec")
    assert "more than 1048576 instructions" in message and "call them less often" in message


@pytest.mark.parametrize("left, right", [("f32", "s32"), ("s32", "f32"), ("s8", "f16")])
def test_a_float_times_an_integer(tool, left, right):
    """As JAX 0.4.30 writes them for a TPU; the result is a float."""
    types = {"f32": np.float32, "s32": np.int32, "s8": np.int8, "f16": np.float16}
    a = np.array([[1, 2, 3], [-4, 5, 6]], types[left])
    b = np.array([[1, -2], [3, 4], [5, 7]], types[right])
    result = "f16" if right == "f16" else "f32"
    out, = run(tool, f"""HloModule mixed
ENTRY main {{
  a = {left}[2,3] parameter(0)
  b = {right}[3,2] parameter(1)
  ROOT d = {result}[2,2] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""", a, b)
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))
    assert out.dtype == types[result]


@pytest.mark.parametrize("length", [1, 2, 3, 8, 30, 97, 101, 360, 1009, 1024])
def test_transforms_of_any_length(tool, length):
    """Powers of two, products of small primes, primes."""
    x = matrix("c64", 3, length)
    out, = run(tool, f"""HloModule transform
ENTRY main {{
  x = c64[3,{length}] parameter(0)
  there = c64[3,{length}] fft(x), fft_type=FFT, fft_length={{{length}}}
  back = c64[3,{length}] fft(there), fft_type=IFFT, fft_length={{{length}}}
  ROOT all = c64[6,{length}] concatenate(there, back), dimensions={{0}}
}}
""", x)
    wanted = np.fft.fft(x.astype(np.complex128))
    np.testing.assert_allclose(out[:3], wanted, atol=1e-6 * np.abs(wanted).max())
    np.testing.assert_allclose(out[3:], x, atol=1e-5)


def compute(tool, opcode, dtype, *inputs, attributes="", result=None):
    """The result of a program of one instruction, whose operands have one type."""
    shapes = [f"{dtype}[{','.join(map(str, v.shape))}]" for v in inputs]
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(len(inputs)))
    return run(tool, "HloModule one\nENTRY main {\n" + "\n".join(lines) + f"""
  ROOT r = {result or shapes[0]} {opcode}({names}){attributes}
}}
""", *inputs)[0]


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
def test_arc_tangent(tool, dtype):
    x = matrix(dtype, 3, 5) / 2
    np.testing.assert_allclose(compute(tool, "atan", dtype, x), np.arctan(x), rtol=BOUND[dtype])


@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"])
def test_upper_half_of_a_product(tool, dtype):
    kind = np.dtype(("u" if dtype[0] == "u" else "") + f"int{dtype[1:]}")
    limits = np.iinfo(kind)
    random = np.random.default_rng(0)
    x, y = random.integers(limits.min, limits.max, (2, 37), kind, endpoint=True)
    x[:2], y[:2] = limits.min, (limits.min, limits.max)
    wanted = [int(a) * int(b) >> limits.bits for a, b in zip(x, y)]
    assert compute(tool, "mulhi", dtype, x, y).tolist() == wanted


def test_the_arc_tangent_of_a_number_of_a_map(tool):
    x = matrix("f32", 7)
    out, = run(tool, """HloModule maps
f {
  x = f32[] parameter(0)
  ROOT y = f32[] atan(x)
}
ENTRY main {
  x = f32[7] parameter(0)
  ROOT r = f32[7] map(x), dimensions={0}, to_apply=f
}
""", x)
    np.testing.assert_allclose(out, np.arctan(x), rtol=1e-6)


def test_shuffles(tool):
    x = matrix("f32", 4, 5)
    rotated = compute(tool, "shuffle", "f32", x,
                      attributes=", dimensions={0,1}, mode=rotate, shifts={1,-2}")
    np.testing.assert_array_equal(rotated, np.roll(x, (-1, 2), (0, 1)))
    rows = compute(tool, "shuffle", "f32", x, attributes=", dimensions={0}, mode=permute, "
                   "indices=s8[4,1]{1,0} { {2}, {0}, {3}, {1} }")
    np.testing.assert_array_equal(rows, x[[2, 0, 3, 1]])
    x = matrix("f32", 3, 2)
    places = np.array([[[0, 2], [1, 0]], [[0, 0], [1, 2]], [[0, 1], [1, 1]]])
    moved = compute(tool, "shuffle", "f32", x, attributes=", dimensions={1,0}, mode=permute, "
                    "indices=s32[3,2,2]{2,1,0} { { {0,2}, {1,0} }, { {0,0}, {1,2} }, "
                    "{ {0,1}, {1,1} } }")
    np.testing.assert_array_equal(moved, x[places[..., 1], places[..., 0]])
    tool.write("s.hlo", "HloModule s\nENTRY e { p = f32[4] parameter(0)\n"
               "  ROOT r = f32[4] shuffle(p), dimensions={0}, mode=rotate }")
    assert "takes shifts or indices" in tool.fails("compile", "s.hlo", "-o", "s.poplar_exec")


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(tool, reverse):
    """Two inputs, two carries, three outputs, one of them of another shape and type."""
    x, y = matrix("f32", 2, 6, 3), np.arange(12, dtype=np.int32).reshape(2, 6)
    results = run(tool, """HloModule scans
step {
  x = f32[2,3] parameter(0)
  y = s32[2] parameter(1)
  sum = f32[2,3] parameter(2)
  last = s32[2] parameter(3)
  next = f32[2,3] add(x, sum)
  fell = pred[2] compare(y, last), direction=LT
  ROOT r = (f32[2,3], pred[2], s32[2], f32[2,3], s32[2]) tuple(next, fell, last, next, y)
}
ENTRY main {
  x = f32[2,6,3] parameter(0)
  y = s32[2,6] parameter(1)
  zero = f32[] constant(0)
  sum = f32[2,3] broadcast(zero), dimensions={}
  last = s32[2] constant({7, 7})
  ROOT r = (f32[2,6,3], pred[2,6], s32[2,6], f32[2,3], s32[2]) scan(x, y, sum, last),
    dimensions={1}, num_carries=2, is_associative=false, to_apply=step""" +
                  (", is_reverse=true\n}\n" if reverse else "\n}\n"), x, y)
    turned = slice(None, None, -1 if reverse else 1)
    before = np.concatenate([[[7], [7]], y[:, turned][:, :-1]], 1)[:, turned]
    np.testing.assert_allclose(results[0], np.cumsum(x[:, turned], 1)[:, turned], rtol=1e-6)
    np.testing.assert_array_equal(results[1], y < before)
    np.testing.assert_array_equal(results[2], before)
    np.testing.assert_allclose(results[3], x.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(results[4], y[:, 0 if reverse else -1])


def test_scans_that_do_not_fit_are_named(tool):
    scan = """HloModule s
step {{
  x = {} parameter(0)
  c = f32[] parameter(1)
  ROOT r = (f32[], f32[]) tuple(c, c)
}}
ENTRY e {{
  x = f32[4] parameter(0)
  c = f32[] constant(0)
  ROOT r = (f32[{}], f32[]) scan(x, c), dimensions={{0}}, num_carries=1, to_apply=step
}}
"""
    for taken, size, message in (("f32[2]", 4, "operand 0 f32[4] does not fit parameter 0 of step"),
                                 ("f32[]", 5, "element 0 of its result is f32[5], but step gives")):
        tool.write("s.hlo", scan.format(taken, size))
        assert message in tool.fails("compile", "s.hlo", "-o", "s.poplar_exec")


def test_a_collective_reduce_of_one_replica(tool):
    x = matrix("f32", 5)
    out, = run(tool, """HloModule reduces
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[5] parameter(0)
  ROOT r = f32[5] collective-reduce(x), replica_groups={{0}}, has_dynamic_root=false, to_apply=add
}
""", x)
    np.testing.assert_array_equal(out, x)


def test_elements_of_tuples_as_operands(tool):
    """`%t#1#0` stands for two get-tuple-elements."""
    x, y = matrix("f32", 4), matrix("f32", 4, seed=1)
    out, = run(tool, """HloModule elements
ENTRY main {
  %x = f32[4] parameter(0)
  %y = f32[4] parameter(1)
  %inner = tuple(%x, %y)
  %t = tuple(%y, %inner)
  ROOT %r = subtract(f32[4] %t#1#0, add(t#0, %inner#1))
}
""", x, y)
    np.testing.assert_allclose(out, x - 2 * y, rtol=1e-6)
    tool.write("e.hlo", "HloModule e\nENTRY e {\n  t = (f32[]) parameter(0)\n"
               "  ROOT r = negate(t#1)\n}")
    assert "line 4" in tool.fails("compile", "e.hlo", "-o", "e.poplar_exec")


def test_the_parameters_of_a_signature_are_not_checked(tool):
    """As in XLA, whose own files name others there."""
    x = matrix("f32", 2)
    out, = run(tool, """HloModule signature
ENTRY main (x: f32[3], y: s32[]) -> f32[2] {
  x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x)
}
""", x)
    np.testing.assert_array_equal(out, -x)


def test_computations_that_nothing_calls_are_only_read(tool):
    out, = run(tool, """HloModule dead
unbounded {
  x = f32[?,3] parameter(0)
  ROOT y = f32[?,3] abs(x)
}
wrong (x: f32[2]) -> f32[3] {
  x = f32[4] parameter(0)
  ROOT r = f32[3] ragged-dot(x, x, x)
}
add (a: f32[], b: f32[]) -> f32[] {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
refused {
  x = f32[8] parameter(0)
  root = s32[1] parameter(1)
  ROOT r = f32[8] collective-reduce(x, root), replica_groups={{0}}, to_apply=add,
      has_dynamic_root=true
}
ENTRY main {
  ROOT x = f32[2] parameter(0)
}
""", matrix("f32", 2))
    np.testing.assert_array_equal(out, matrix("f32", 2))
    tool.write("u.hlo", "HloModule u\nENTRY e {\n  ROOT x = f32[?] parameter(0)\n}\n")
    message = tool.fails("compile", "u.hlo", "-o", "u.poplar_exec")
    assert "line 3, column 16: a dimension without a bound" in message


def test_a_text_of_several_modules(tool):
    """A number behind the file's name chooses one, and its messages have the lines of the file."""
    module = "HloModule m\nENTRY e {{\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] {}(x)\n}}\n"
    tool.write("two.hlo", module.format("negate") + "\n// -----\n\n" + module.format("abs") +
               "\n// -----\n" + module.format("wrong"))
    message = tool.fails("compile", "two.hlo", "-o", "two.poplar_exec")
    assert "line 9, column 1: a second module begins" in message and "FILE:2" in message
    assert "abs(" in tool.ok("print", "two.hlo:2") and "negate(" in tool.ok("print", "two.hlo:1")
    x = np.array([-1, 2], np.float32)
    tool.ok("run", "two.hlo:2", "--input", f"x={tool.save('x.npy', x)}", "--output", "out")
    np.testing.assert_array_equal(tool.load("out/output0.npy"), np.abs(x))
    assert "line 19, column 19: unknown opcode 'wrong'" in tool.fails("print", "two.hlo:3")
    assert "has no module 4: its lines '// -----' make 3" in tool.fails("print", "two.hlo:4")
    assert "no file two.hlo:0" in tool.fails("print", "two.hlo:0")


REPLICATED = """HloModule replicas, replica_count=4
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[2] parameter(0)
  id = u32[] replica-id()
  number = f32[] convert(id)
  spread = f32[2] broadcast(number), dimensions={}
  own = f32[2] add(x, spread)
  token = token[] after-all()
  out = token[] outfeed(own, token), outfeed_shape=f32[2], outfeed_config="seen"
  ROOT r = f32[2] all-reduce(own), replica_groups={{0,1},{2,3}}, to_apply=add
}
"""


def test_a_program_of_several_replicas(tool):
    program = tool.compile(REPLICATED, "program", "--ipus", "4")
    x = matrix("f32", 2)
    tool.ok("run", program, "--input", f"x={tool.save('x.npy', x)}", "--output", "out")
    np.testing.assert_allclose(tool.load("out/output0.npy"), 2 * x + 1, rtol=1e-6)
    seen = tool.load("out/seen.npy")
    assert seen.shape == (1, 4, 2)
    np.testing.assert_allclose(seen[0], x + np.arange(4)[:, None], rtol=1e-6)
    program = tool.compile(REPLICATED)
    message = tool.fails("run", program, "--random")
    assert "names replica 1, but the program runs on 1; the option ipus says on how many" in message


def test_replicas_that_the_header_states(tool):
    """Another number of replicas is worth a warning, the same number is not."""
    tool.write("program.hlo", REPLICATED)
    for ipus, has in ((4, None), (1, 1), (8, 8)):
        log = tool("compile", "program.hlo", "-o", "program.poplar_exec", "--ipus", ipus).stderr
        wanted = (f"the module replicas is for 4 replicas (replica_count in its header) and is "
                  f"compiled for {has}; the option ipus=4 gives it those replicas")
        assert (wanted in log) == (has is not None), log
        assert has is not None or log == "", log


@pytest.mark.parametrize(("dtype", "algorithm"), [
    ("f32", "dot_bf16_bf16_f32"), ("f32", "dot_tf32_tf32_f32_x3"), ("f64", "dot_f64_f64_f64")])
def test_algorithms_of_dots_are_met(tool, dtype, algorithm):
    """By the precision of the operands, which is not less."""
    a, b = matrix(dtype, 5, 70), matrix(dtype, 70, 6, seed=1)
    out, = run(tool, f"""HloModule dots
ENTRY main {{
  a = {dtype}[5,70] parameter(0)
  b = {dtype}[70,6] parameter(1)
  ROOT d = {dtype}[5,6] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, \
algorithm={algorithm}
}}
""", a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, exact, atol=1e-5 if dtype == "f32" else 1e-13)
    assert f"algorithm={algorithm}" in tool.ok("print", "program.hlo")


TUPLED = """HloModule tupled
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] add(a, b)
  ROOT t = (f32[]) tuple(c)
}
ENTRY main {
  x = f32[6,4] parameter(0)
  i = s32[2,1] parameter(1)
  zero = f32[] constant(0)
  sums = (f32[6]) reduce(x, zero), dimensions={1}, to_apply=add
  windows = (f32[3,4]) reduce-window(x, zero), window={size=2x1 stride=2x1}, to_apply=add
  w = f32[3,4] get-tuple-element(windows), index=0
  rows = f32[2,4] slice(x), slice={[0:2], [0:4]}
  scattered = (f32[3,4]) scatter(w, i, rows), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = ((f32[6]), (f32[3,4]), (f32[3,4])) tuple(sums, windows, scattered)
}
"""


def test_reductions_whose_computation_gives_a_tuple_of_one(tool):
    """As XLA's verifier allows: the result is a tuple of one too."""
    x, places = matrix("f32", 6, 4), np.array([[2], [2]], np.int32)
    sums, windows, scattered = run(tool, TUPLED, x, places)
    pairs = x.reshape(3, 2, 4).sum(1)
    np.testing.assert_allclose(sums, x.sum(1), atol=1e-6)
    np.testing.assert_allclose(windows, pairs, atol=1e-6)
    pairs[2] += x[0] + x[1]
    np.testing.assert_allclose(scattered, pairs, atol=1e-6)
    times = tool("run", "program.poplar_exec", "--random", "--times").stderr
    assert "kernel" in times and "reference.reduce" not in times
    tool.write("t.hlo", TUPLED.replace("sums = (f32[6]) reduce", "sums = f32[6] reduce"))
    message = tool.fails("compile", "t.hlo", "-o", "t.poplar_exec")
    assert "stated as f32[6] and follows as (f32[6])" in message


def test_random_bits_without_their_state(tool):
    """The bits alone are those of the tuple with the next state."""
    alone, beside = run(tool, """HloModule bits
ENTRY main {
  s = u64[2] parameter(0)
  alone = u32[9] rng-bit-generator(s), algorithm=rng_three_fry
  both = (u64[2], u32[9]) rng-bit-generator(s), algorithm=rng_three_fry
  beside = u32[9] get-tuple-element(both), index=1
  ROOT t = (u32[9], u32[9]) tuple(alone, beside)
}
""", np.array([3, 4], np.uint64))
    np.testing.assert_array_equal(alone, beside)
    assert len(set(alone.tolist())) == 9


def test_a_call_that_nothing_uses_is_left_out(tool):
    text = """HloModule unused
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] custom-call(x), custom_call_target="somebody's"
  ROOT r = f32[2] negate(x)
}
"""
    out, = run(tool, text, matrix("f32", 2))
    np.testing.assert_array_equal(out, -matrix("f32", 2))
    tool.write("u.hlo", text.replace('s"', 's", custom_call_has_side_effect=true'))
    assert "'somebody's'" in tool.fails("compile", "u.hlo", "-o", "u.poplar_exec")


def test_axes_of_meshes_without_quotes(tool):
    """As the XLA of 2026 prints them, in replica groups and shardings."""
    x = matrix("f32", 4)
    out, = run(tool, """HloModule meshes
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[4] parameter(0), sharding={mesh[a=2,b=4], [{a}], unreduced={b:(2)2}}
  p = f32[4] custom-call(x), custom_call_target="PinToDevice"
  ROOT r = f32[4] all-reduce(p), replica_groups=mesh[a=1,b=1] {a}, to_apply=add
}
""", x)
    np.testing.assert_array_equal(out, x)
    assert "sharding={unknown}" in tool.ok("print", "program.hlo")


@pytest.mark.parametrize("name", ["ROOT y = ", "ROOT %y = ", "%y = ", "y = ", ""])
def test_a_text_of_one_instruction(tool, name):
    x = matrix("f32", 3)
    got, = run(tool, f"{name}f32[3]{{0}} negate(f32[3]{{0}} %x)\n", x)
    np.testing.assert_array_equal(got, -x)
