"""Generated programs: what the passes do to ops next to each other.

A program is a list of ops on earlier results, chosen by a seeded generator and tried eagerly while
it is made, so that shapes fit and numbers stay ordinary. Ops that jump (comparisons of floats,
casts to integers) are left out: they would turn a rounding error into another answer.
"""

import numpy as np
import pytest
import tensorflow as tf
from bounds import BOUNDS, difference
from differential import FLOATS, lower, run_ours


def _axis(rng, x):
    return int(rng.integers(0, len(x.shape)))


def _unary(*ops):
    return lambda rng, x: ops[rng.integers(0, len(ops))]


def _binary(*ops):
    return lambda rng, x, y: ops[rng.integers(0, len(ops))]


def _reduce(rng, x):
    axis, keep = _axis(rng, x), bool(rng.integers(0, 2))
    op = [tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_sum][rng.integers(0, 4)]
    return lambda x: op(x, axis=axis, keepdims=keep)


def _transpose(rng, x):
    order = rng.permutation(len(x.shape)).tolist()
    return lambda x: tf.transpose(x, order)


def _slice(rng, x):
    slices = []
    for size in x.shape:
        first = int(rng.integers(0, size))
        slices.append(slice(first, int(rng.integers(first + 1, size + 1)), int(rng.integers(1, 3))))
    return lambda x: x[tuple(slices)]


def _pad(rng, x):
    pads = rng.integers(0, 3, (len(x.shape), 2)).tolist()
    return lambda x: tf.pad(x, pads)


def _reshape(rng, x):
    size = int(np.prod(x.shape))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    rows = int(rng.choice(divisors))
    return lambda x: tf.reshape(x, [rows, size // rows])


def _concat(rng, x, y):
    axis = _axis(rng, x)
    return lambda x, y: tf.concat([x, y], axis)


def _broadcast(rng, x):
    copies = int(rng.integers(2, 4))
    return lambda x: tf.broadcast_to(x, [copies, *x.shape])


def _tile(rng, x):
    copies = rng.integers(1, 3, len(x.shape)).tolist()
    return lambda x: tf.tile(x, copies)


def _gather(rng, x):
    axis = _axis(rng, x)
    rows = rng.integers(0, x.shape[axis], 3).astype(np.int32)
    return lambda x: tf.gather(x, rows, axis=axis)


def _update(rng, x):
    row = int(rng.integers(0, x.shape[0]))
    return lambda x: tf.tensor_scatter_nd_update(x, [[row]], [tf.tanh(x[0])])


def _select(rng, x, y):
    chosen = rng.integers(0, 2, x.shape) > 0
    return lambda x, y: tf.where(chosen, x, y)


def _matmul(rng, x, y):
    scale = 1 / np.sqrt(x.shape[-1])
    return lambda x, y: tf.matmul(x, y) * tf.cast(scale, x.dtype)


def _loop(rng, x):
    turns = int(rng.integers(1, 4))
    return lambda x: tf.while_loop(lambda i, a, b: i < turns,
                                   lambda i, a, b: (i + 1, tf.tanh(a + b), b * .5), [0, x, x])[1]


def _reverse(rng, x):
    axis = _axis(rng, x)
    return lambda x: tf.reverse(x, [axis])


def _window(rng, x):
    if len(x.shape) != 3:
        raise ValueError("pooling in one dimension wants three")
    return lambda x: tf.nn.max_pool1d(x, 2, 1, "SAME")


def _convert(rng, x):
    return lambda x: tf.cast(tf.cast(x, tf.float32) * .5 + .25, x.dtype)


# (chooses a function for the operands, how many operands)
OPS = [
    (_unary(tf.tanh, tf.sigmoid, tf.nn.relu, tf.negative, tf.abs, lambda x: x + 1,
            lambda x: x * .5, lambda x: tf.exp(-tf.abs(x)), tf.nn.softplus), 1),
    (_unary(tf.tanh, tf.square, lambda x: tf.clip_by_value(x, -1, 1), lambda x: 1 - x), 1),
    (_binary(tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum), 2),
    (_binary(tf.add, tf.subtract, tf.multiply, lambda x, y: x / (1 + tf.abs(y))), 2),
    (_reduce, 1), (_transpose, 1), (_slice, 1), (_pad, 1), (_reshape, 1), (_concat, 2),
    (_broadcast, 1), (_tile, 1), (_gather, 1), (_update, 1), (_select, 2), (_matmul, 2), (_loop, 1),
    (_reverse, 1), (_window, 1), (_convert, 1), (lambda rng, x: tf.nn.softmax, 1),
    (lambda rng, x: lambda x: tf.cumsum(x, -1) * .25, 1), (lambda rng, x: tf.sort, 1),
]


def make_program(rng, dtype, length):
    """(function, input arrays): the function returns some of its values, the last among them."""
    inputs = [rng.uniform(-1, 1, shape).astype(dtype)
              for shape in [(4, 6), (6,), (3, 4, 6), (6, 5)]]
    values = [tf.constant(array) for array in inputs]
    ops = []
    while len(ops) < length:
        choose, count = OPS[rng.integers(0, len(OPS))]
        # The newest values more often, so that chains become long.
        at = [len(values) - 1 - int(len(values) * rng.random() ** 2) for _ in range(count)]
        operands = [values[i] for i in at]
        try:
            op = choose(rng, *operands)
            result = op(*operands)
        except (tf.errors.OpError, ValueError, IndexError):
            continue  # the shapes do not fit
        if not 0 < int(tf.size(result)) <= 3000 or len(result.shape) > 5 or not np.all(
                np.abs(result.numpy()) < 30):
            continue
        values.append(result)
        ops.append((op, at))
    kept = sorted({len(values) - 1, *(int(i) for i in rng.integers(4, len(values), 4))})

    def program(*tensors):
        computed = list(tensors)
        for op, at in ops:
            computed.append(op(*[computed[i] for i in at]))
        return [computed[i] for i in kept]
    return program, inputs


def check_program(seed, dtype, length):
    program, inputs = make_program(np.random.default_rng(seed), dtype, length)
    hlo, run_xla = lower(program, inputs)
    ways = {"reference": run_ours(hlo, inputs, reference=True),
            "as written": run_ours(hlo, inputs, optimise=False),
            "xla": run_xla(), "tf": [y.numpy() for y in program(*map(tf.constant, inputs))]}
    executable_results = run_ours(hlo, inputs)
    bound, found = BOUNDS["network"], []
    for way, results in ways.items():
        for i, (got, want) in enumerate(zip(executable_results, results)):
            peer = "reference" if way == "as written" else way
            words = difference(got, want, bound.against(peer, want.dtype))
            if words:
                found.append(f"result {i} differs from {way}: {words}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(25))
def test_program(seed, dtype):
    check_program(seed, dtype, 12 + seed)


@pytest.mark.long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_more_programs(seed, dtype):
    check_program(seed, dtype, 40)
