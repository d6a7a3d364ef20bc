"""What programs of XLA's tests and of JAX have beside the usual: systems of complex matrices and
with three diagonals, TopK calls, stochastic-convert, maps, conversions of complex numbers,
bitcasts of arrays whose layouts differ."""

import shutil

import numpy as np
import pytest

COMPLEX = {"c64": np.complex64, "c128": np.complex128}
BOUND = {"c64": 1e-5, "c128": 1e-12}


def run(tool, text, *inputs):
    program = tool.compile(text)
    given = [f"{i}={tool.save(f'{i}.npy', value)}" for i, value in enumerate(inputs)]
    shutil.rmtree(tool.folder / "out", ignore_errors=True)
    tool.ok("run", program, *[part for one in given for part in ("--input", one)], "--output",
            "out")
    return [tool.load(path) for path in sorted((tool.folder / "out").iterdir())]


def times_of(tool):
    """The kernels of the last program, with their times."""
    result = tool("run", "program.poplar_exec", "--random", "--times")
    assert result.returncode == 0 and "kernel" in result.stderr
    return result.stderr


def numbers(dtype, *shape, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return values.astype(COMPLEX[dtype])


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_cholesky(tool, dtype, lower):
    b = numbers(dtype, 2, 5, 5)
    a = b @ adjoint(b) + np.eye(5, dtype=COMPLEX[dtype])
    a[1, 0, 0] = -1  # no factor
    other = np.triu(np.full((5, 5), 7j), 1) if lower else np.tril(np.full((5, 5), 7j), -1)
    seen = np.where(other != 0, other, a).astype(COMPLEX[dtype])  # one triangle is read
    factor, = run(tool, f"""HloModule factor
ENTRY main {{
  a = {dtype}[2,5,5] parameter(0)
  ROOT l = {dtype}[2,5,5] cholesky(a), lower={str(lower).lower()}
}}
""", seen)
    first = factor[0] if lower else adjoint(factor[0])
    np.testing.assert_allclose(first @ adjoint(first), a[0], atol=40 * BOUND[dtype])
    np.testing.assert_array_equal(np.triu(first, 1), 0)
    assert np.isnan(factor[1][2, 2]) and factor[1][(0, 4) if lower else (4, 0)] == 0


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_complex_triangular_systems(tool, transpose, left):
    a = numbers("c128", 2, 4, 4) + 2 * np.eye(4)
    b = numbers("c128", 2, *((4, 3) if left else (3, 4)), seed=1)
    size = ",".join(map(str, b.shape))
    for lower in (True, False):
        for unit in (True, False):
            x, = run(tool, f"""HloModule solve
ENTRY main {{
  a = c128[2,4,4] parameter(0)
  b = c128[{size}] parameter(1)
  ROOT x = c128[{size}] triangular-solve(a, b), left_side={str(left).lower()}, \
lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}
""", a, b)
            half = np.tril(a, -1) if lower else np.triu(a, 1)
            half = half + (np.eye(4) if unit else np.eye(4) * a)
            op = {"NO_TRANSPOSE": half, "TRANSPOSE": np.swapaxes(half, 1, 2),
                  "ADJOINT": adjoint(half)}[transpose]
            np.testing.assert_allclose(op @ x if left else x @ op, b, atol=1e-9)


@pytest.mark.parametrize("letter, dtype", [("s", "f32"), ("d", "f64"), ("z", "c128")])
def test_tridiagonal_systems(tool, letter, dtype):
    real = {"f32": np.float32, "f64": np.float64}
    kind = real.get(dtype) or COMPLEX[dtype]
    lower, middle, upper, b = (numbers("c128", 2, *shape, seed=seed) for seed, shape in
                               enumerate([(6,), (6,), (6,), (6, 3)]))
    middle[0, 2] = 0  # needs a pivot
    middle[1], lower[1] = 0, 0  # has none
    given = [(x if dtype == "c128" else x.real).astype(kind) for x in (lower, middle, upper, b)]
    *_, x, info = run(tool, f"""HloModule solve
ENTRY main {{
  dl = {dtype}[2,6] parameter(0)
  d = {dtype}[2,6] parameter(1)
  du = {dtype}[2,6] parameter(2)
  b = {dtype}[2,6,3] parameter(3)
  ROOT r = ({dtype}[2,6], {dtype}[2,6], {dtype}[2,6], {dtype}[2,6,3], s32[2]) \
custom-call(dl, d, du, b), custom_call_target="lapack_{letter}gtsv_ffi", \
api_version=API_VERSION_TYPED_FFI, backend_config={{}}
}}
""", *given)
    matrix = np.diag(given[1][0]) + np.diag(given[0][0][1:], -1) + np.diag(given[2][0][:-1], 1)
    np.testing.assert_allclose(matrix @ x[0], given[3][0], atol=1e-4 if dtype == "f32" else 1e-10)
    assert info.tolist() == [0, 1]


@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_top_k_call(tool, direction):
    x = np.random.default_rng(0).permutation(111).reshape(3, 37).astype(np.float32)
    values, places = run(tool, f"""HloModule top
order {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT first = pred[] compare(a, b), direction={direction}
}}
ENTRY main {{
  x = f32[3,37] parameter(0)
  ROOT r = (f32[3,5], s32[3,5]) custom-call(x), custom_call_target="TopK", \
called_computations={{order}}
}}
""", x)
    wanted = np.argsort(-x if direction == "GT" else x, axis=1)[:, :5]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


BITS_IN_ORDER = """order {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  zero = INTEGER[] constant(0)
  most = INTEGER[] constant(MOST)
  c = INTEGER[] bitcast(a)
  d = INTEGER[] bitcast(b)
  c.xor = INTEGER[] xor(most, c)
  d.xor = INTEGER[] xor(most, d)
  c.less = pred[] compare(c, zero), direction=LT
  d.less = pred[] compare(d, zero), direction=LT
  c.key = INTEGER[] select(c.less, c.xor, c)
  d.key = INTEGER[] select(d.less, d.xor, d)
  ROOT first = pred[] compare(c.key, d.key), direction=DIRECTION
}
"""
ORDERED = {"f32": ("s32", np.int32), "f64": ("s64", np.int64), "f16": ("s16", np.int16)}


def bits_in_order(dtype, direction):
    integer, kind = ORDERED[dtype]
    text = BITS_IN_ORDER.replace("INTEGER", integer).replace("DIRECTION", direction)
    return text.replace("TYPE", dtype).replace("MOST", str(np.iinfo(kind).max))


@pytest.mark.parametrize("dtype", ORDERED)
@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_comparators_of_bits(tool, dtype, direction):
    """XLA's optimised texts write totalOrder as an order of integers: TopK and sorts."""
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[dtype]
    x = np.random.default_rng(0).permutation(111).reshape(3, 37).astype(kind) - kind(50)
    x[0, :4] = [0.0, -0.0, np.inf, -np.inf]
    x[1, :2] = [np.nan, np.copysign(kind(np.nan), kind(-1))]
    values, places, ordered, moved = run(tool, f"""HloModule top
{bits_in_order(dtype, direction)}
ENTRY main {{
  x = {dtype}[3,37] parameter(0)
  i = s32[3,37] iota(), iota_dimension=1
  best = ({dtype}[3,5], s32[3,5]) custom-call(x), custom_call_target="TopK", \
called_computations={{order}}
  all = ({dtype}[3,37], s32[3,37]) sort(x, i), dimensions={{1}}, is_stable=true, to_apply=order
  ROOT r = ({dtype}[3,5], s32[3,5], {dtype}[3,37], s32[3,37]) tuple({dtype}[3,5] %best#0, \
s32[3,5] %best#1, {dtype}[3,37] %all#0, s32[3,37] %all#1)
}}
""", x)
    integer = ORDERED[dtype][1]
    bits = x.view(integer)
    keys = np.where(bits < 0, bits ^ np.iinfo(integer).max, bits)
    wanted = np.argsort(~keys if direction == "GT" else keys, axis=1, kind="stable")
    np.testing.assert_array_equal(moved, wanted)
    np.testing.assert_array_equal(ordered.view(integer), np.take_along_axis(bits, wanted, 1))
    np.testing.assert_array_equal(places, wanted[:, :5])
    np.testing.assert_array_equal(values.view(integer), ordered.view(integer)[:, :5])


def test_other_masks_are_no_total_order(tool):
    """A comparator with another mask sorts by what it says, and so does TopK."""
    text = bits_in_order("f32", "LT").replace("constant(2147483647)", "constant(1073741823)")
    x = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    best, places, ordered, _ = run(tool, f"""HloModule other
{text}
ENTRY main {{
  x = f32[40] parameter(0)
  i = s32[40] iota(), iota_dimension=0
  best = (f32[7], s32[7]) custom-call(x), custom_call_target="TopK", called_computations={{order}}
  all = (f32[40], s32[40]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=order
  ROOT r = (f32[7], s32[7], f32[40], s32[40]) tuple(f32[7] %best#0, s32[7] %best#1, \
f32[40] %all#0, s32[40] %all#1)
}}
""", x)
    bits = x.view(np.int32)
    wanted = np.argsort(np.where(bits < 0, bits ^ 1073741823, bits), kind="stable")
    np.testing.assert_array_equal(ordered, x[wanted])
    np.testing.assert_array_equal(best, x[wanted[:7]])
    np.testing.assert_array_equal(places, wanted[:7])


@pytest.mark.parametrize("to", ["s8", "u16", "s32"])
def test_stochastic_convert(tool, to):
    kind = {"s8": np.int8, "u16": np.uint16, "s32": np.int32}[to]
    random = np.random.default_rng(0)
    x = np.repeat([2.25, -2.25, 3.0, 0.5, 1e20, -1e20], 4000).astype(np.float32)
    bits = random.integers(0, 1 << 32, x.size, dtype=np.uint32)
    got, = run(tool, f"""HloModule convert
ENTRY main {{
  x = f32[{x.size}] parameter(0)
  bits = u32[{x.size}] parameter(1)
  ROOT r = {to}[{x.size}] stochastic-convert(x, bits)
}}
""", x, bits)
    limits = np.iinfo(kind)
    size = np.floor(np.abs(x)) + (bits < (np.abs(x) % 1).astype(np.float64) * 2.0**32)
    wanted = np.clip(np.copysign(size, x), limits.min, limits.max)
    np.testing.assert_array_equal(got, wanted.astype(np.int64).astype(kind))
    assert abs(got[:4000].mean() - 2.25) < 0.05
    tool.write("half.hlo", "HloModule h\nENTRY e {\n  x = f32[2] parameter(0)\n"
               "  b = u32[2] parameter(1)\n  ROOT r = f16[2] stochastic-convert(x, b)\n}\n")
    message = tool.fails("compile", "half.hlo", "-o", "half.poplar_exec")
    assert "not f16 of f32; convert rounds to the nearest" in message


def test_maps_are_elementwise(tool):
    text = """HloModule maps
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  two = f32[] constant(2)
  less = pred[] compare(a, b), direction=LT
  c = f32[] multiply(a, two)
  ROOT r = f32[] select(less, b, c)
}
ENTRY main {
  p = f32[9,37] parameter(0)
  q = f32[9,37] parameter(1)
  ROOT r = f32[9,37] map(p, q), dimensions={0,1}, to_apply=f
}
"""
    p, q = np.random.default_rng(0).standard_normal((2, 9, 37)).astype(np.float32)
    got, = run(tool, text, p, q)
    np.testing.assert_array_equal(got, np.where(p < q, q, p * 2))
    assert "reference" not in times_of(tool)


def test_conversions_of_complex_numbers(tool):
    text = """HloModule conversions
ENTRY main {
  z = c64[300] parameter(0)
  i = s64[300] parameter(1)
  h = bf16[300] convert(i)
  a = c128[300] convert(z)
  part = f32[300] real(z)
  long = f64[300] convert(part)
  b = f16[300] convert(long)
  c = c64[300] convert(i)
  d = f64[300] convert(h)
  e = s64[300] convert(h)
  ROOT r = (c128[300], f16[300], c64[300], f64[300], s64[300]) tuple(a, b, c, d, e)
}
"""
    z = numbers("c64", 300)
    i = np.random.default_rng(1).integers(-200, 200, 300)
    a, b, c, d, e = run(tool, text, z, i)
    np.testing.assert_array_equal(a, z.astype(np.complex128))
    np.testing.assert_array_equal(b, z.real.astype(np.float16))
    np.testing.assert_array_equal(c, i.astype(np.complex64))
    np.testing.assert_array_equal(d, i)
    np.testing.assert_array_equal(e, i)
    assert "reference" not in times_of(tool)


LAYOUTS = [  # sizes and layouts, from minor to major, of an array and of two bitcasts of it
    (((3, 4), (1, 0)), ((3, 4, 1), (2, 0, 1)), ((12,), (0,))),
    (((4, 6), (0, 1)), ((2, 3, 4), (0, 2, 1)), ((6, 4), (1, 0))),
    (((2, 3, 4), (1, 2, 0)), ((8, 3), (0, 1)), ((3, 2, 4), (1, 0, 2))),
]


@pytest.mark.parametrize("arrays", LAYOUTS)
def test_bitcasts_keep_bytes(tool, arrays):
    """XLA's texts of after the layout assignment have them."""
    def shape(dims, layout):
        return f"f32[{','.join(map(str, dims))}]{{{','.join(map(str, layout))}}}"

    (dims, layout), _, (last, last_layout) = arrays
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    texts = [shape(*one) for one in arrays]
    out, = run(tool, f"""HloModule bytes
ENTRY main {{
  x = {texts[0]} parameter(0)
  n = {texts[0]} negate(x)
  b = {texts[1]} bitcast(n)
  c = {texts[2]} bitcast(b)
  ROOT a = {texts[2]} copy(c)
}}
""", x)
    lies = np.transpose(-x, layout[::-1]).reshape([last[d] for d in last_layout[::-1]])
    np.testing.assert_array_equal(out, np.transpose(lies, np.argsort(last_layout[::-1])))


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "s32", "u64", "f64", "c64", "c128"])
def test_dots_of_all_numbers_have_a_fast_kernel(tool, dtype):
    tool.compile(f"""HloModule dots
ENTRY main {{
  a = {dtype}[5,7] parameter(0)
  b = {dtype}[7,3] parameter(1)
  ROOT d = {dtype}[5,3] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""")
    times = times_of(tool)
    assert "fast.dot" in times and "reference" not in times


@pytest.mark.parametrize("right", [[2], [2, 3]])
def test_halves_whose_dot_copies_them_first(tool, right):
    """In a process that computes nothing before: the left side is a matrix only when copied."""
    x, y = numbers("c64", 5, 2, 4).real, numbers("c64", *right, seed=1).real
    x, y = x.astype(np.float16), y.astype(np.float16)
    columns = ",".join(map(str, [5, 4] + right[1:]))
    got, = run(tool, f"""HloModule dots
ENTRY main {{
  x = f16[5,2,4] parameter(0)
  y = f16[{",".join(map(str, right))}] parameter(1)
  ROOT d = f32[{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""", x, y)
    wanted = np.tensordot(x.astype(np.float64), y.astype(np.float64), (1, 0))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
