"""tremula.jax.jit and compile: arguments, caching, donation, types, refusals."""

import contextlib
import functools
import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tremula.jax
from tremula import core
from tremula.jax import arguments

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def programs(function):
    return len(function._programs)


def x64():
    """JAX with types of 64 bits, by any of its names."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64
    return enable_x64(True)


# ---- Arguments -----------------------------------------------------------------------------------


def test_trees_go_in_and_out():
    @tremula.jax.jit
    def f(tree, pair, *, scale):
        return {"sum": tree["a"] + pair[0] * scale, "rest": [pair[1], None], "t": (tree["b"],)}

    out = f({"a": X, "b": 3}, (X, True), scale=2.0)
    assert sorted(out) == ["rest", "sum", "t"] and out["rest"][1] is None
    np.testing.assert_array_equal(out["sum"], 3 * X)
    assert type(out["sum"]) is np.ndarray
    assert out["t"][0].dtype == np.int32 and out["t"][0] == 3
    assert out["rest"][0].dtype == bool and out["rest"][0]
    assert f.__name__ == "f" and f.__wrapped__({"a": 1, "b": 2}, (3, 4), scale=1)["sum"] == 4


def test_programs_are_kept_by_shape_type_tree_and_weakness():
    traced = []

    @tremula.jax.jit
    def f(x):
        traced.append(1)
        return jax.tree_util.tree_map(lambda one: one + 1, x)

    for argument in (X, X + 1, jnp.asarray(X), X[:1], X.astype(np.int32), [X], 1.0, 2.0,
                     np.float32(1), 1, True):
        f(argument)
    assert len(traced) == programs(f) == 8
    f.clear_cache()
    assert programs(f) == 0
    f(X)
    assert len(traced) == 9


@pytest.mark.parametrize("options", [
    {"static_argnums": 1}, {"static_argnums": (1,)}, {"static_argnums": -1},
    {"static_argnames": "n"}, {"static_argnames": ["n"]}])
def test_static_arguments(options):
    @functools.partial(tremula.jax.jit, **options)
    def power(x, n):
        assert isinstance(n, int)
        return x ** n if n > 1 else x

    for n in (1, 2, 3, 2):
        np.testing.assert_allclose(power(X, n), X ** n, rtol=1e-6)
    assert programs(power) == 3
    if options != {"static_argnums": -1}:
        np.testing.assert_allclose(power(X, n=3), X ** 3, rtol=1e-6)
    compiled = power.compile(X, 3)
    np.testing.assert_allclose(compiled(X), X ** 3, rtol=1e-6)


def test_a_static_argument_that_cannot_be_hashed():
    f = tremula.jax.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(ValueError, match="[Nn]on-hashable static arguments"):
        f(X, [1])


def test_equal_statics_of_different_types_are_different():
    f = tremula.jax.jit(lambda x, n: x + n, static_argnums=1)
    assert f(X, 1).dtype == np.float32 and f(X.astype(np.int32), 1.0).dtype == np.float32
    assert f(X.astype(np.int32), True).dtype == np.int32


def test_what_is_no_array():
    f = tremula.jax.jit(lambda tree: tree)
    with pytest.raises(TypeError, match="str"):
        f({"a": "text"})


def test_as_decorator_and_method():
    class Model:
        scale = 3

        @functools.partial(tremula.jax.jit, static_argnums=0)
        def apply(self, x):
            return x * self.scale

        @tremula.jax.jit(static_argnames=("self",))
        def shift(self, x):
            return x + self.scale

    np.testing.assert_array_equal(Model().apply(X), 3 * X)
    np.testing.assert_array_equal(Model().shift(x=X), X + 3)


def test_arrays_of_every_layout():
    f = tremula.jax.jit(lambda x: x * 2)
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    unaligned = np.frombuffer(b"\0" + wide.tobytes(), np.uint8)[1:].view(np.float32)
    for x in (wide.T, wide[::2], wide[:, ::-1], np.asfortranarray(wide), unaligned,
              wide.astype(np.float64), np.zeros((0, 3), np.float32)):
        np.testing.assert_array_equal(f(x), x.astype(np.float32) * 2)


def test_outputs_as_jax_arrays():
    f = tremula.jax.jit(lambda x: (x + 1, x.sum()), outputs="jax")
    first, total = f(X)
    assert isinstance(first, jax.Array) and isinstance(total, jax.Array)
    np.testing.assert_array_equal(first.at[0].set(0)[1], X[1] + 1)
    kept = np.asarray(first).copy()
    f(X + 100)
    np.testing.assert_array_equal(first, kept)  # later calls do not touch it


# ---- Types ---------------------------------------------------------------------------------------


def test_weak_types():
    half = X.astype(np.float16)
    f = tremula.jax.jit(lambda x, y: x * y)
    for x, y in ((half, 2.0), (half, np.float32(2)), (half, 2), (X.astype(np.int8), 2),
                 (X.astype(np.int8), 2.0), (2, 3), (2, 3.0), (True, 2), (half, jnp.asarray(2.0)),
                 (jnp.bfloat16(3), 2.0), (1j, half)):
        wanted = jax.jit(lambda x, y: x * y)(x, y)
        result = f(x, y)
        assert result.dtype == wanted.dtype, (x, y)
        np.testing.assert_array_equal(result, wanted)


def test_64_bits_as_jax_has_them():
    f = tremula.jax.jit(lambda x: x + 1)
    assert f(np.float64(1)).dtype == np.float32 and f(2 ** 31 - 2) == 2 ** 31 - 1
    with pytest.raises(OverflowError):
        f(2 ** 40)
    with x64():
        assert f(2 ** 40) == 2 ** 40 + 1
        assert f(np.float64(1) + 1e-12) == 2 + 1e-12
        assert f(np.float32(1)).dtype == np.float32
    assert f(np.arange(3)).dtype == np.int32


def test_small_types():
    for name in ("bfloat16", "float16", "int8", "uint16", "bool_", "complex64"):
        x = jnp.asarray([1, 0, 3], getattr(jnp, name))
        result = tremula.jax.jit(lambda x: jnp.where(x == 1, x, x[::-1]))(x)
        np.testing.assert_array_equal(result, jax.jit(lambda x: jnp.where(x == 1, x, x[::-1]))(x))


def test_typed_keys_go_in_and_out():
    @tremula.jax.jit
    def f(key):
        key, use = jax.random.split(key)
        return key, jax.random.normal(use, (4,))

    key, numbers = f(jax.random.key(3))
    wanted, use = jax.random.split(jax.random.key(3))
    np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(wanted))
    np.testing.assert_allclose(numbers, jax.random.normal(use, (4,)), rtol=1e-6)
    again = f(key)[0]
    np.testing.assert_array_equal(jax.random.key_data(again),
                                  jax.random.key_data(jax.random.split(wanted)[0]))


def test_gradients_of_integers_have_no_bits():
    gradient = tremula.jax.jit(jax.grad(lambda n, x: (x * n).sum(), argnums=(0, 1),
                                        allow_int=True))(np.int32(3), X)
    assert gradient[0].dtype == jax.dtypes.float0 and gradient[0].shape == ()
    np.testing.assert_array_equal(gradient[1], np.full_like(X, 3))


# ---- Transformations -----------------------------------------------------------------------------


def test_jitted_functions_are_inlined_into_one_another():
    inner = tremula.jax.jit(lambda x: jnp.sin(x).sum())
    outer = tremula.jax.jit(jax.value_and_grad(lambda x: inner(x) * 2))
    value, gradient = outer(X)
    np.testing.assert_allclose(value, 2 * np.sin(X).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, 2 * np.cos(X), rtol=1e-5)
    assert programs(inner) == 0
    np.testing.assert_allclose(tremula.jax.jit(lambda x: jax.jit(jnp.cos)(x))(X), np.cos(X),
                               rtol=1e-5)


@pytest.mark.parametrize("outside", [jax.jit, jax.grad, jax.vmap, jax.make_jaxpr])
def test_other_transformations_around_it_are_refused(outside):
    inner = tremula.jax.jit(lambda x: jnp.sum(x))
    with pytest.raises(TypeError, match=r"Put tremula.jax.jit outermost"):
        outside(lambda x: inner(x))(X)
    outside(inner.__wrapped__)(X)


def test_a_function_that_fails_leaves_nothing_behind():
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tremula.jax.jit(fails)(X)
    with pytest.raises(TypeError, match="outermost"):
        jax.jit(tremula.jax.jit(jnp.sum))(X)


# ---- Memory, versions, threads -------------------------------------------------------------------


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}])
def test_memory_that_nobody_sees_is_used_again(options):
    @functools.partial(tremula.jax.jit, **options)
    def step(params, x):
        return {"w": params["w"] + x.sum(), "n": params["n"] + 1}, params["w"][0]

    mine = {"w": np.zeros(100000, np.float32), "n": np.int32(0)}
    params, seen = mine, set()
    for i in range(6):
        params, first = step(params, X)
        assert first == 15 * i and params["w"][7] == 15 * (i + 1) and params["n"] == i + 1
        seen.add(address(params["w"]))
    assert len(seen) == 2  # each result in the memory of the one before the last
    assert all(address % 64 == 0 for address in seen)
    assert not mine["w"].any()


def test_memory_of_small_results_is_used_again():
    f = tremula.jax.jit(lambda x: (x + 1, x.sum()))
    seen = set()
    for i in range(8):
        more, total = f(X + i)
        np.testing.assert_array_equal(more, X + i + 1)
        assert total.shape == () and total == 15 + 6 * i
        more.flags.writeable = False
        more.shape = 6
        seen.add((address(more), address(total)))
    assert len(seen) == 2


@pytest.mark.parametrize("shape", [(300, 300), (12, 2)])
@pytest.mark.parametrize("keep", [
    lambda y: y, lambda y: y[5:9], lambda y: y.T.ravel()[::2], memoryview, jnp.asarray,
    lambda y: y.view(np.int32).view(np.float32)])
def test_results_that_are_kept_stay_as_they_are(keep, shape):
    big = np.zeros(shape, np.float32)
    f = tremula.jax.jit(lambda x: x + 1)
    kept = [keep(f(big + i)) for i in range(8)]
    for i, result in enumerate(kept):
        assert (np.asarray(result) == i + 1).all()


def test_numpy_arguments_may_change_in_place():
    w = np.ones((64, 64), np.float32)
    f = tremula.jax.jit(lambda w, x: x @ w)
    x = np.ones((8, 64), np.float32)
    for value in (1, 2, 3):
        w[:] = value
        np.testing.assert_array_equal(f(w, x), np.full((8, 64), 64 * value))
        np.testing.assert_array_equal(f(jnp.array(w), x), np.full((8, 64), 64 * value))


def test_a_call_is_told_from_the_one_before():
    """Types may change from call to call, and one array may change its own."""
    f = tremula.jax.jit(lambda x, y: x + y)
    one, two = jnp.asarray(X), jnp.asarray(X + 1)
    numbers = X.copy()
    for x, y in ((one, two), (one, two), (two, one), (numbers, one), (numbers.T, two.T),
                 (one.astype(jnp.int32), two), (one, 2.0), (one, 3), (one, jnp.float32(3)),
                 (X[:1], one), (one, two)):
        result = f(x, y)
        expected = np.asarray(x) + np.asarray(y, np.float32)
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == np.float32
    assert f(numbers, 2).dtype == np.float32
    numbers.dtype = np.int32
    assert f(numbers, 2).dtype == np.int32
    numbers.shape = 6
    assert f(numbers, 2).shape == (6,)
    with x64():
        assert f(np.float64(1), 2).dtype == np.float64
    assert f(np.float64(1), 2).dtype == np.float32


@jax.tree_util.register_pytree_node_class
class Twice:
    """A node of trees that can also be made an array, of which JAX takes the leaf."""

    def __init__(self, leaf):
        self.leaf = leaf

    def __jax_array__(self):
        return 2 * jnp.asarray(self.leaf)

    def tree_flatten(self):
        return (self.leaf,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_a_call_with_arrays_is_told_from_one_with_trees():
    f = tremula.jax.jit(lambda x, y: jax.tree_util.tree_leaves((x, y))[-1] + 1)
    one = jnp.asarray(X)
    f(one, one)
    assert f._last[5:] == (None, 2)
    for y in ([one], Twice(one), one, Twice(2 * one), (), {"a": X}, one, [one, X], 2.0, None, X):
        wanted = jax.tree_util.tree_leaves((one, y))[-1]
        np.testing.assert_array_equal(f(one, y), np.asarray(wanted) + 1)
    assert programs(f) == 8
    f(one, y=one)
    assert f._last[5:] == (None, -1)
    with pytest.raises(TypeError):
        f(one)


def test_a_call_with_lists_is_told_from_one_with_other_trees():
    f = tremula.jax.jit(lambda x, y: jax.tree_util.tree_structure((x, y)).num_nodes + sum(
        jax.tree_util.tree_leaves((x, y))))
    one, two = jnp.asarray(X), jnp.asarray(2 * X)
    f([one, two], one)
    assert f._last[5:] == ([(list, 2), None], 2)
    calls = [([one, two], one), ((one, two), one), ([one], [two, one]), ([one, two], [one]),
             ([one, [two]], one), ([one, Twice(two)], one), ([one, None, two], one), ([], one),
             ([one, two], {"a": one}), ([one, 2.0], one), ([two, one], two), ([X, two], 2 * X)]
    for x, y in calls + calls[::-1]:
        leaves, tree = jax.tree_util.tree_flatten((x, y))
        np.testing.assert_allclose(f(x, y), tree.num_nodes + sum(map(np.asarray, leaves)), 1e-6)
    several = [one]
    f(several, one)
    several.append(two)
    np.testing.assert_allclose(f(several, one), 5 + 4 * X, 1e-6)


def test_nothing_takes_the_place_of_an_array_that_is_gone():
    f = tremula.jax.jit(lambda x, y: x if y is None else x + y)
    one = jnp.asarray(X)
    f(one, jnp.asarray(X) + 1)
    gc.collect()
    np.testing.assert_array_equal(f(one, None), X)


def test_a_function_that_was_called_is_inlined_too():
    inner = tremula.jax.jit(lambda x: x * 2)
    np.testing.assert_array_equal(inner(X), 2 * X)
    outer = tremula.jax.jit(lambda x: inner(x) + 1)
    np.testing.assert_array_equal(outer(X), 2 * X + 1)
    with pytest.raises(TypeError, match="called with a tracer"):
        jax.jit(inner)(X)


def test_a_deleted_array_is_refused():
    f = tremula.jax.jit(lambda x: x + 1)
    x = jnp.asarray(X)
    f(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x)


def test_threads_share_a_function():
    f = tremula.jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
    wrong = []

    def work(n):
        x = np.full((20, 20), n / 50, np.float32)
        wanted = np.tanh(x.astype(np.float64) @ x.T).sum()
        wrong.extend(n for _ in range(20) if not np.isclose(f(x), wanted, rtol=1e-4))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and programs(f) == 1


# ---- Executables ---------------------------------------------------------------------------------


def test_compile_plan_and_save(tmp_path):
    def step(w, x):
        with jax.named_scope("dense"):
            return w - 0.1 * jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)

    shape = jax.ShapeDtypeStruct((64, 32), jnp.float32)
    x = np.ones((16, 64), np.float32)
    compiled = tremula.jax.compile(tremula.jax.jit(step, donate_argnums=0), shape, x)
    w = np.zeros((64, 32), np.float32)
    np.testing.assert_allclose(compiled(w, x), step(w, x), rtol=1e-5)
    assert "parameter(1)" in compiled.hlo_text() and "parameter(1)" in compiled.hlo_text(True)
    plan = compiled.plan()
    assert plan.fits and plan.cycles > 0 and plan.weights_bytes >= 64 * 32 * 4
    assert any("dense" in layer.name for layer in plan.layers)
    assert "fits" in str(plan) and "bow" in str(compiled.plan("bow")).lower()
    assert compiled.plan("bow").seconds < plan.seconds
    compiled.save(tmp_path / "step.poplar_exec")
    loaded = core.Engine(core.Executable.load(tmp_path / "step.poplar_exec"))
    np.testing.assert_array_equal(loaded.run([w, x])[0], compiled(w, x))


def test_an_executable_takes_only_what_it_was_compiled_for():
    compiled = tremula.jax.compile(lambda x, n: x[0] * n["a"], (X,), {"a": 2.0})
    np.testing.assert_array_equal(compiled((X,), {"a": 3.0}), 3 * X)
    with pytest.raises(TypeError, match="structure"):
        compiled(X, {"a": 2.0})
    with pytest.raises(TypeError, match=r"\[0\]\[0\], and is called with float32\[2, 2\]"):
        compiled((X[:, :2],), {"a": 2.0})
    with pytest.raises(TypeError, match="called with str"):
        compiled((X,), {"a": "2"})


def test_options_of_the_compiler():
    f = tremula.jax.jit(lambda x: x + 1, options={"reference": True})
    np.testing.assert_array_equal(f(X), X + 1)
    with pytest.raises(core.InvalidArgumentError, match="no_such"):
        tremula.jax.jit(lambda x: x, options={"no_such": 1})(X)


@pytest.mark.parametrize("given, words", [
    ({"in_shardings": None}, "in_shardings: IPUs are chosen"), ({"device": None}, "device"),
    ({"nonsense": 1}, "no option nonsense")])
def test_options_of_jax_jit_without_a_meaning_are_refused(given, words):
    with pytest.raises(TypeError, match=words):
        tremula.jax.jit(lambda x: x, **given)


def test_other_mistakes():
    with pytest.raises(ValueError, match="outputs is"):
        tremula.jax.jit(lambda x: x, outputs="torch")
    with pytest.raises(TypeError, match="wants a function"):
        tremula.jax.jit(3)
    with pytest.raises(TypeError, match="keep_unused"):
        tremula.jax.jit(lambda x: x, keep_unused=1)


OLD_CALLBACKS = pytest.mark.skipif(jax.__version_info__ >= (0, 6), reason="JAX's own form is known")


def printing(x, ordered=False):
    jax.debug.print("{}", x, ordered=ordered)
    return x


@pytest.mark.parametrize("function, words", [
    pytest.param(printing, "python_cpu_callback.*take a newer JAX", marks=OLD_CALLBACKS),
    pytest.param(functools.partial(printing, ordered=True), "take a newer JAX",
                 marks=OLD_CALLBACKS),
    pytest.param(lambda x: jax.pure_callback(np.sin, x, x), "jax.pure_callback",
                 marks=OLD_CALLBACKS),
    pytest.param(lambda x: jax.ffi.ffi_call("lapack_sgbtrf_ffi", X)(x),
                 "docs/jax.md lists the functions of LAPACK",
                 marks=pytest.mark.skipif(not hasattr(jax, "ffi"), reason="JAX has no jax.ffi"))])
def test_what_python_or_lapack_would_do_is_refused_by_name(function, words):
    with pytest.raises(core.UnimplementedError, match=words):
        tremula.jax.jit(function)(X)


def test_infinities_of_a_sum_are_computed_without_warnings(recwarn):
    with contextlib.suppress(FloatingPointError):
        tremula.jax.jit(lambda x: 1 / (x - x))(X)
    assert not recwarn.list


@pytest.mark.parametrize("name", arguments._SETTINGS)
def test_each_setting_changes_the_context(name):
    """A call like the one before is recognised by it."""
    value = getattr(jax.config, name)
    others = {"jax_default_matmul_precision": "highest", "jax_numpy_dtype_promotion": "strict",
              "jax_numpy_rank_promotion": "raise", "jax_default_prng_impl": "rbg"}
    before = arguments.context()
    assert arguments.context() == before
    jax.config.update(name, others.get(name, not value))
    try:
        assert arguments.context() != before
    finally:
        jax.config.update(name, value)
    assert arguments.context() == before
