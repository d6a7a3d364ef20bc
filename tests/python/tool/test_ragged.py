"""ragged-dot and ragged-all-to-all: operations on groups whose sizes are data."""

import string

import numpy as np
import pytest
from hlo_texts import run

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "s32": np.int32,
         "c64": np.complex64}


def shape_of(array):
    names = {np.dtype(v): k for k, v in {**TYPES, "s64": np.int64, "u8": np.uint8}.items()}
    return f"{names[array.dtype]}[{','.join(map(str, array.shape))}]"


def numbers(dtype, *shape, seed=0):
    random = np.random.default_rng(seed)
    if dtype == "s32":
        return random.integers(-9, 9, shape).astype(np.int32)
    values = random.standard_normal(shape)
    if dtype == "c64":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(TYPES[dtype])


def braces(dims):
    return "{" + ",".join(map(str, dims)) + "}"


def ragged_dot(tool, left, right, sizes, result, *, batch=((), ()), contracting, ragged, group=(),
               options=()):
    attributes = (f"lhs_batch_dims={braces(batch[0])}, rhs_batch_dims={braces(batch[1])}, "
                  f"lhs_contracting_dims={braces(contracting[0])}, "
                  f"rhs_contracting_dims={braces(contracting[1])}, "
                  f"lhs_ragged_dims={{{ragged}}}, rhs_group_dims={braces(group)}")
    parameters = "\n".join(f"  p{i} = {shape_of(v)} parameter({i})"
                           for i, v in enumerate((left, right, sizes)))
    return run(tool, f"""HloModule ragged

ENTRY main {{
{parameters}
  ROOT r = {result} ragged-dot(p0, p1, p2), {attributes}
}}
""", left, right, sizes, options=options)[0]


def expected(left, right, sizes, *, batch=((), ()), contracting, ragged, group=()):
    """The definition: for each group, the product with all other elements of the left side 0."""
    names = iter(string.ascii_lowercase)
    a = [next(names) for _ in left.shape]
    b = [None] * right.ndim
    for ours, theirs in list(zip(*batch)) + list(zip(*contracting)):
        b[theirs] = a[ours]
    outer = list(batch[0][:batch[0].index(ragged)] if ragged in batch[0] else batch[0])
    if ragged in contracting[0]:
        outer += contracting[0][:contracting[0].index(ragged)]
    elif ragged not in batch[0]:
        outer += [d for d in range(ragged) if d not in batch[0] and d not in contracting[0]]
    if group:
        b[group[0]] = "Z"
    b = [name or next(names) for name in b]
    free = [a[d] for d in batch[0]]
    free += [a[d] for d in range(left.ndim) if d not in batch[0] and d not in contracting[0]]
    free += [name for name in b if name not in a and name != "Z"]
    if ragged in batch[0]:
        return np.einsum(f"{''.join(a)},{''.join(b)}->{''.join(free)}", left, right)
    sizes = np.broadcast_to(sizes, [left.shape[d] for d in outer] + [sizes.shape[-1]])
    ends = np.cumsum(sizes.astype(np.int64), axis=-1)
    rows = np.arange(left.shape[ragged])
    inside = (rows >= (ends - sizes)[..., None]) & (rows < ends[..., None])
    mask = "".join(a[d] for d in outer) + "Z" + a[ragged]
    free = free if group else ["Z"] + free
    wide = np.result_type(left.dtype, np.float64) if left.dtype != np.int32 else np.int64
    return np.einsum(f"{mask},{''.join(a)},{''.join(b)}->{''.join(free)}", inside.astype(np.int64),
                     left.astype(wide), right.astype(wide))


def check(tool, left, right, sizes, result=None, **dims):
    want = expected(left, right, sizes, **dims)
    names = {np.dtype(v): k for k, v in TYPES.items()}
    result = result or names[left.dtype]
    shape = f"{result}[{','.join(map(str, want.shape))}]"
    got = ragged_dot(tool, left, right, sizes, shape, **dims)
    bound = {"f16": 2e-3, "f64": 1e-13}.get(result, 1e-5) * max(1, np.abs(want).max())
    np.testing.assert_allclose(got, want, atol=bound, rtol=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [[3, 0, 5, 2], [0, 0, 0, 0], [10, 0, 0, 0], [1, 2, 3, 1]])
def test_groups_of_rows(tool, dtype, sizes):
    """Rows behind the last group give zeros, which [1, 2, 3, 1] has."""
    left, right = numbers(dtype, 10, 6), numbers(dtype, 4, 6, 7, seed=1)
    check(tool, left, right, np.array(sizes, np.int32), contracting=((1,), (1,)), ragged=0,
          group=(0,))


@pytest.mark.parametrize("sizes", [[300, 1, 0, 199], [127, 129, 128, 116], [0, 500, 0, 0]])
def test_groups_of_several_blocks(tool, sizes):
    left, right = numbers("f32", 500, 24), numbers("f32", 4, 24, 20, seed=1)
    check(tool, left, right, np.array(sizes, np.int64), contracting=((1,), (1,)), ragged=0,
          group=(0,))
    check(tool, left, numbers("f32", 500, 9, seed=2), np.array(sizes, np.int64),
          contracting=((0,), (0,)), ragged=0)


def test_sizes_beyond_the_rows_are_cut(tool):
    left, right = numbers("f32", 6, 3), numbers("f32", 3, 3, 2, seed=1)
    dims = {"contracting": ((1,), (1,)), "ragged": 0, "group": (0,)}
    want = expected(left, right, np.array([2, 4, 0]), **dims)
    for sizes in ([2, 9, 5], [2, 1 << 40, 1 << 40], [2, 4, -1]):
        got = ragged_dot(tool, left, right, np.array(sizes, np.int64), "f32[6,2]", **dims)
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_other_groups_matrices_are_not_multiplied(tool):
    left, right = numbers("f32", 6, 3), numbers("f32", 3, 3, 2, seed=1)
    right[1] = np.nan
    got = ragged_dot(tool, left, right, np.array([2, 1, 2], np.int32), "f32[6,2]",
                     contracting=((1,), (1,)), ragged=0, group=(0,))
    np.testing.assert_array_equal(np.isnan(got[:, 0]), [0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("each", [False, True])
def test_groups_of_rows_with_further_dimensions(tool, each):
    """Batch dimensions, and dimensions before and behind the ragged one, in any place."""
    sizes = np.array([2, 1, 3], np.int32)
    of_each = np.random.default_rng(2).integers(0, 3, (2, 5, 3)).astype(np.int32)
    left = numbers("f32", 5, 4, 7, 2, 3)  # free, contracting, ragged, batch, free
    right = numbers("f32", 6, 2, 4, 3, seed=1)  # free, batch, contracting, group
    check(tool, left, right, of_each if each else sizes, batch=((3,), (1,)),
          contracting=((1,), (2,)), ragged=2, group=(3,))


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "s32", "f16"])
def test_groups_of_summed_elements(tool, each, dtype):
    sizes = np.array([2, 0, 3], np.int32)
    of_each = np.random.default_rng(2).integers(0, 4, (2, 5, 3)).astype(np.int32)
    left = numbers(dtype, 4, 2, 7, 5, 3)  # free, batch, ragged, contracting, contracting
    right = numbers(dtype, 7, 3, 6, 5, 2, seed=1)
    check(tool, left, right, of_each if each else sizes, batch=((1,), (4,)),
          contracting=((3, 2, 4), (3, 0, 1)), ragged=2)


def test_a_ragged_batch_is_a_dot(tool):
    left, right = numbers("f32", 5, 6, 3), numbers("f32", 5, 3, 4, seed=1)
    check(tool, left, right, np.array([2, 1], np.int32), batch=((0,), (0,)),
          contracting=((2,), (1,)), ragged=0)


@pytest.mark.parametrize("rows, groups, summed", [(0, 2, 3), (4, 0, 3), (4, 2, 0)])
def test_empty_arrays(tool, rows, groups, summed):
    got = ragged_dot(tool, numbers("f32", rows, summed), numbers("f32", groups, summed, 5),
                     np.ones(groups, np.int32), f"f32[{rows},5]", contracting=((1,), (1,)),
                     ragged=0, group=(0,))
    np.testing.assert_array_equal(got, np.zeros((rows, 5)))


def test_the_bits_do_not_depend_on_the_number_of_threads(tool):
    left, right = numbers("f32", 300, 64), numbers("f32", 4, 64, 32, seed=1)
    dims = {"contracting": ((1,), (1,)), "ragged": 0, "group": (0,)}
    sizes = np.array([100, 50, 0, 150], np.int32)
    one, two = (ragged_dot(tool, left, right, sizes, "f32[300,32]", options=("--threads", n),
                           **dims) for n in (1, 2))
    np.testing.assert_array_equal(one.view(np.int32), two.view(np.int32))


@pytest.mark.parametrize("text, message", [
    ("f32[6,4] ragged-dot(x, y, f), lhs_ragged_dims={0}, rhs_group_dims={0}", "integers"),
    ("f32[6,4] ragged-dot(x, y, g), lhs_ragged_dims={0}", "rhs_group_dims"),
    ("f32[6,4] ragged-dot(x, y, g), rhs_group_dims={0}", "lhs_ragged_dims"),
    ("f32[6,4] ragged-dot(x, y, g), lhs_ragged_dims={0,1}, rhs_group_dims={0}", "lhs_ragged_dims"),
    ("f32[6,4] ragged-dot(x, y, g), lhs_ragged_dims={7}, rhs_group_dims={0}", "left side"),
    ("f32[6,4] ragged-dot(x, y, g), lhs_ragged_dims={0}, rhs_group_dims={1}", "both"),
    ("f32[6,4] ragged-dot(x, y, g), lhs_ragged_dims={0}, rhs_group_dims={2}", "groups"),
    ("f32[6,5] ragged-dot(x, y, g), lhs_ragged_dims={0}, rhs_group_dims={0}", "f32[6,4]"),
    ("f32[6,4] ragged-dot(x, y, h), lhs_ragged_dims={0}, rhs_group_dims={0}", "one dimension"),
    ("f32[6,4] ragged-dot(x, y), lhs_ragged_dims={0}, rhs_group_dims={0}", "operands"),
    ("f32[2,6,4] ragged-dot(x, y, g), lhs_ragged_dims={1}, rhs_group_dims={0}", "rhs_group_dims"),
])
def test_ragged_dots_that_do_not_fit_are_named(tool, text, message):
    source = tool.write("ragged.hlo", f"""HloModule ragged

ENTRY main {{
  x = f32[6,3] parameter(0)
  y = f32[2,3,4] parameter(1)
  g = s32[2] parameter(2)
  h = s32[6,2] parameter(3)
  f = f32[2] parameter(4)
  ROOT r = {text}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}
""")
    assert message in tool.fails("compile", source, "-o", "out.poplar_exec")


def all_to_all(rows, room, parts, head="HloModule ragged", groups="{}"):
    return f"""{head}

ENTRY main {{
  id = u32[] replica-id()
  own = s32[] convert(id)
  all = s32[{2 * parts}] parameter(2)
  first = s32[] constant(0)
  of = s32[] multiply(own, s32[] constant({parts}))
  from = s32[{parts}] dynamic-slice(all, of), dynamic_slice_sizes={{{parts}}}
  sizes.all = s32[{2 * parts}] parameter(3)
  sizes = s32[{parts}] dynamic-slice(sizes.all, of), dynamic_slice_sizes={{{parts}}}
  to.all = s32[{2 * parts}] parameter(4)
  to = s32[{parts}] dynamic-slice(to.all, of), dynamic_slice_sizes={{{parts}}}
  x = f32[{rows},2] parameter(0)
  float = f32[] convert(own)
  shift = f32[{rows},2] broadcast(float), dimensions={{}}
  input = f32[{rows},2] add(x, shift)
  output = f32[{room},2] parameter(1)
  ROOT r = f32[{room},2] ragged-all-to-all(input, output, from, sizes, to, sizes), \
replica_groups={groups}
}}
"""


def test_rows_move_within_one_replica(tool):
    x, output = numbers("f32", 6, 2), numbers("f32", 5, 2, seed=1)
    start, sizes, to = np.array([[4, 0], [2, 1], [0, 3]], np.int32).repeat(2, axis=0)[::2]
    both = [np.concatenate([v, v]) for v in (start, sizes, to)]
    got, = run(tool, all_to_all(6, 5, 2), x, output, *both)
    want = output.copy()
    want[0:2], want[3:4] = x[4:6], x[0:1]
    np.testing.assert_array_equal(got, want)


def test_rows_beyond_an_array_are_cut(tool):
    x, output = numbers("f32", 6, 2), numbers("f32", 5, 2, seed=1)
    for start, size, to, want in [(4, 9, 0, {0: 4, 1: 5}), (0, 4, 3, {3: 0, 4: 1}),
                                  (-1, 2, 0, {}), (0, -2, 0, {}), (0, 2, 7, {}), (9, 1, 0, {})]:
        values = [np.array([v, v], np.int32) for v in (start, size, to)]
        got, = run(tool, all_to_all(6, 5, 1), x, output, *values)
        expect = output.copy()
        for row, source in want.items():
            expect[row] = x[source]
        np.testing.assert_array_equal(got, expect)


def test_rows_move_between_replicas(tool):
    """Replica k adds k to its rows. Each sends two parts to each."""
    x, output = numbers("f32", 6, 2), numbers("f32", 9, 2, seed=1)
    start = np.array([0, 1, 2, 3, 4, 5, 0, 1], np.int32)
    sizes = np.array([1, 2, 1, 0, 2, 1, 3, 1], np.int32)
    to = np.array([0, 1, 2, 0, 4, 7, 5, 3], np.int32)
    text = all_to_all(6, 9, 4, "HloModule ragged, replica_count=2", "{{0,1}}")
    text = text.replace("ROOT r", "r").replace("\n}", """
  token = token[] after-all()
  ROOT out = token[] outfeed(r, token), outfeed_shape=f32[9,2], outfeed_config="seen"
}""")
    run(tool, text, x, output, start, sizes, to, compile_options=("--ipus", "2"))
    first, second = tool.load("out/seen.npy")[0]
    want = output.copy()
    want[0:1], want[1:3], want[4:6], want[7:8] = x[0:1], x[1:3], x[4:6] + 1, x[5:6] + 1
    np.testing.assert_array_equal(first, want)
    want = output.copy()
    want[2:3], want[5:8], want[3:4] = x[2:3], x[0:3] + 1, x[1:2] + 1
    np.testing.assert_array_equal(second, want)


@pytest.mark.parametrize("call, message", [
    ("ragged-all-to-all(x, y, i, i, i, i)", "rows of one shape"),
    ("ragged-all-to-all(x, x, i, i, i)", "operands"),
    ("ragged-all-to-all(x, x, f, f, f, f)", "integers"),
    ("ragged-all-to-all(x, x, i, i, j, i)", "one shape"),
    ("ragged-all-to-all(x, x, j, j, j, j), replica_groups={{0,1}}", "3 parts for groups of 2"),
])
def test_ragged_exchanges_that_do_not_fit_are_named(tool, call, message):
    source = tool.write("ragged.hlo", f"""HloModule ragged

ENTRY main {{
  x = f32[6,2] parameter(0)
  y = f32[6,3] parameter(1)
  i = s32[2] parameter(2)
  j = s32[3] parameter(3)
  f = f32[2] parameter(4)
  ROOT r = f32[6,2] {call}
}}
""")
    assert message in tool.fails("compile", source, "-o", "out.poplar_exec")
