"""Random numbers in compiled parts: what they are distributed like, and when they repeat."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

COUNT = 20000


def draw(on_ipu, session, function, runs=1):
    """The values of `runs` runs of one program."""
    result = on_ipu(function)
    with session() as s:
        return [s.run(result)[0] for _ in range(runs)]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("function, mean, deviation, low, high", [
    (lambda dtype: tf.random.uniform([COUNT], -1., 3., dtype), 1., 4 / 12 ** .5, -1., 3.),
    (lambda dtype: tf.random.normal([COUNT], 2., .5, dtype), 2., .5, -.5, 4.5),
    (lambda dtype: tf.random.truncated_normal([COUNT], 1., 2., dtype), 1., 2 * .8796, -3., 5.),
], ids=["uniform", "normal", "truncated_normal"])
def test_floats(on_ipu, session, dtype, function, mean, deviation, low, high):
    value, = draw(on_ipu, session, lambda: function(dtype))
    assert value.dtype == dtype.as_numpy_dtype
    value = value.astype(np.float64)
    assert abs(value.mean() - mean) < 5 * deviation / COUNT ** .5
    assert abs(value.std() - deviation) < .02 * deviation
    assert low <= value.min() and value.max() <= high
    assert value.max() - value.min() > .7 * (high - low)


@pytest.mark.parametrize("low, high, dtype", [
    (0, 5, tf.int32), (-3, 3, tf.int32), (7, 8, tf.int64), (-2 ** 40, 2 ** 40, tf.int64)])
def test_integers(on_ipu, session, low, high, dtype):
    value, = draw(on_ipu, session, lambda: tf.random.uniform([COUNT], low, high, dtype))
    assert value.dtype == dtype.as_numpy_dtype
    assert low <= value.min() and value.max() < high
    if high - low < 10:
        share = np.bincount(value - low, minlength=high - low) / COUNT
        assert np.abs(share - 1 / (high - low)).max() < .02


def test_integers_between_bounds_that_are_computed(on_ipu, session):
    with tf.device("cpu"):
        bound = tf.placeholder(tf.int32, [])
    result = on_ipu(lambda n: tf.random.uniform([1000], n - 2, n, tf.int32), [bound])
    with session() as s:
        for n in (5, -1):
            assert set(s.run(result, {bound: n})[0]) == {n - 2, n - 1}


def test_integers_one_by_one(session):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = tf.random.uniform([1000], 3, 6, tf.int32)
    with session() as s:
        assert set(s.run(y)) == {3, 4, 5}


def test_shuffle(on_ipu, session):
    first, second = draw(on_ipu, session, lambda: tf.random.shuffle(tf.range(500)), runs=2)
    for value in (first, second):
        np.testing.assert_array_equal(np.sort(value), np.arange(500))
        assert (value == np.arange(500)).sum() < 10
    assert (first == second).sum() < 10


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_categorical(on_ipu, session, dtype):
    chances = np.array([[.5, .3, .2, 0.], [.1, .1, .1, .7]])

    def sample():
        logits = tf.cast(tf.constant(np.log(chances + 1e-4), tf.float32), dtype)
        return tf.random.categorical(logits, COUNT)

    with tf.device("cpu"):
        value, = draw(on_ipu, session, sample)
    assert value.shape == (2, COUNT) and value.dtype == np.int64
    share = np.array([np.bincount(row, minlength=4) for row in value]) / COUNT
    np.testing.assert_allclose(share, chances, atol=.02)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("dropout", [
    lambda x: tf.nn.dropout(x, keep_prob=.75), lambda x: tf.nn.dropout(x, rate=.25),
    lambda x: tf.compat.v2.nn.dropout(x, .25), lambda x: tf.layers.dropout(x, .25, training=True),
], ids=["keep_prob", "rate", "v2", "layer"])
def test_dropout(on_ipu, session, dropout, dtype):
    first, second = draw(on_ipu, session, lambda: dropout(tf.ones([100, 200], dtype)), runs=2)
    for value in (first, second):
        kept = value[value != 0].astype(np.float64)
        assert abs(kept.size / value.size - .75) < .02
        np.testing.assert_allclose(kept, 4 / 3, rtol=1e-3)
    assert (first != second).mean() > .3


def test_gradient_of_dropout_uses_the_same_mask(on_ipu, session):
    def computation():
        x = tf.ones([1000])
        y = tf.nn.dropout(x, rate=.5)
        return y, tf.gradients(y, x)[0]

    result = on_ipu(computation)
    with session() as s:
        y, dx = s.run(result)
    np.testing.assert_array_equal(y, dx)


# ---- When numbers repeat ----

DRAWS = {
    "uniform": lambda seed: tf.random.uniform([64], seed=seed),
    "normal": lambda seed: tf.random.normal([64], seed=seed),
    "truncated_normal": lambda seed: tf.random.truncated_normal([64], seed=seed),
    "integers": lambda seed: tf.random.uniform([64], 0, 10 ** 6, tf.int32, seed=seed),
    "shuffle": lambda seed: tf.random.shuffle(tf.range(64), seed=seed),
    "categorical": lambda seed: tf.random.categorical(tf.zeros([1, 1000]), 64, seed=seed)[0],
}


def equal(a, b):
    return (np.asarray(a) == np.asarray(b)).mean()


@pytest.mark.parametrize("name", DRAWS)
def test_every_run_and_iteration_draws_anew(on_ipu, session, name):
    def computation():
        values = tf.TensorArray(tf.float32, 3, element_shape=[64])

        def body(i, values):
            return i + 1, values.write(i, tf.cast(DRAWS[name](5), tf.float32))

        return tf.while_loop(lambda i, _: i < 3, body, [0, values])[1].stack()

    first, second = draw(on_ipu, session, computation, runs=2)
    rows = [*first, *second]
    for i, row in enumerate(rows):
        for other in rows[:i]:
            assert equal(row, other) < .2


@pytest.mark.parametrize("name", DRAWS)
def test_ops_differ(on_ipu, session, name):
    result = on_ipu(lambda: (DRAWS[name](None), DRAWS[name](None), DRAWS[name](5), DRAWS[name](6)))
    with session() as s:
        rows = s.run(result)
    for i, row in enumerate(rows):
        for other in rows[:i]:
            assert equal(row, other) < .2


SIZED = {
    "uniform": lambda n, seed: tf.random.uniform([n], seed=seed),
    "normal": lambda n, seed: tf.random.normal([n], seed=seed),
    "truncated_normal": lambda n, seed: tf.random.truncated_normal([n], seed=seed),
    "integers": lambda n, seed: tf.random.uniform([n], 5, 10 ** 6, tf.int32, seed=seed),
    "shuffle": lambda n, seed: tf.random.shuffle(tf.range(n), seed=seed),
    "categorical": lambda n, seed: tf.random.categorical(tf.zeros([n, 1000]), 1, seed=seed)[:, 0],
}


def in_loop_of_unknown_shape(name, seed):
    """What a loop's body draws of x's size, for a placeholder x of unknown shape, in 3 rounds."""
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [None], "x")

    def computation(x):
        def body(i, x, values):
            drawn = tf.cast(SIZED[name](tf.shape(x)[0], seed), tf.float32)
            return i + 1, x, values.write(i, tf.ensure_shape(drawn, [64]))

        values = tf.TensorArray(tf.float32, 3, element_shape=[64])
        return tf.while_loop(lambda i, *_: i < 3, body, [0, x, values])[2].stack()

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return x, ipu.ipu_compiler.compile(computation, [x])[0]


@pytest.mark.parametrize("name", SIZED)
def test_loop_of_unknown_shape_draws_anew(session, name):
    """Which shapes the loop's body has is known only when the program runs."""
    x, y = in_loop_of_unknown_shape(name, 5)
    with session() as s:
        rows = [*s.run(y, {x: np.ones(64)}), *s.run(y, {x: np.ones(64)})]
    for i, row in enumerate(rows):
        for other in rows[:i]:
            assert equal(row, other) < .2
    if name == "integers":
        assert min(map(np.min, rows)) >= 5 and max(map(np.max, rows)) < 10 ** 6
    if name == "shuffle":
        np.testing.assert_array_equal(np.sort(rows[0]), np.arange(64))


LOOPED = """
    import sys
    sys.path.insert(0, {folder!r})
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    import numpy as np
    import test_random

    for name in test_random.SIZED:
        with tf.Graph().as_default(), tf.Session() as s:
            ipu.utils.reset_ipu_seed(1)
            x, y = test_random.in_loop_of_unknown_shape(name, {seed})
            print("drawn:", s.run(y, {{x: np.ones(64)}}).tolist())
"""


def test_seed_of_an_op_in_a_loop_of_unknown_shape(script, tmp_path):
    """It makes a difference, for each op, and processes with the same one draw the same."""
    def drawn(seed):
        done = script(LOOPED.format(folder=os.path.dirname(__file__), seed=seed),
                      TREMULA_RUNTIME_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("drawn:")]
        assert len(lines) == len(SIZED)
        return lines

    first = drawn(3)
    assert drawn(3) == first
    for one, other in zip(first, drawn(4)):
        assert one != other


SEEDED = """
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    ipu.utils.reset_ipu_seed({reset})
    tf.set_random_seed({graph})

    def draw():
        return [tf.random.normal([2], seed={op}), tf.random.shuffle(tf.range(9), seed={op}),
                tf.random.categorical(tf.zeros([1, 99]), 4, seed={op}),
                tf.random.uniform([2], 0, 99, tf.int32)]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(draw)
    with tf.Session() as s:
        print("drawn:", s.run(y), s.run(y))
"""


def test_processes_with_equal_seeds_draw_the_same(script, tmp_path):
    def drawn(**seeds):
        done = script(SEEDED.format(**{"reset": 1, "graph": 2, "op": 3, **seeds}),
                      TREMULA_RUNTIME_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return done.stdout[done.stdout.index("drawn:"):]

    first = drawn()
    assert drawn() == first
    assert len({first, drawn(reset=4), drawn(graph=5), drawn(op=6)}) == 4
