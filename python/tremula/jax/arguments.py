"""Leaves of arguments: what a program is chosen by, and the arrays that it reads."""

import operator
import types

import jax
import numpy as np

from tremula.jax.lazy import LazyArray
from tremula.jax.lowering import bits_of, is_key

_X64 = {np.dtype(wide): np.dtype(narrow) for wide, narrow in (
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64"))}
_SCALARS = {bool: np.dtype(bool), int: np.dtype("int64"), float: np.dtype("float64"),
            complex: np.dtype("complex128")}
_TRACED = (
    "a function of tremula.jax.jit was called with a tracer of {}: inside another transformation "
    "JAX would compute it, and not Tremula. Put tremula.jax.jit outermost, as in "
    "tremula.jax.jit(jax.grad(f)), or transform the function itself, which is `.__wrapped__`")
# Settings of JAX that change what a function is traced to.
_SETTINGS = [name for name in (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion", "jax_default_prng_impl", "jax_threefry_partitionable",
    "jax_debug_nans", "jax_softmax_custom_jvp") if hasattr(jax.config, name)]


_values_of_settings = operator.attrgetter(*_SETTINGS)
_ARRAYS = set()  # classes of jax.Array that leaves have had
_LEAVES = {np.ndarray, *_SCALARS}  # classes that are surely leaves, and of _ARRAYS too


def settings():
    """Their values, by which a program is chosen too; jax_enable_x64 is the first."""
    return _values_of_settings(jax.config)


def _make_context():
    """Two functions, the second with an argument that is given too. Their results change whenever
    those of settings() do: JAX's own key of most settings, which costs a third, and those that are
    not in it. It is JAX's own business, so settings() itself serves where it is missing."""
    try:
        from jax._src import config
        key, known = config.trace_context, config.trace_context_names()
        key()
    except (ImportError, AttributeError, NotImplementedError):
        return tuple, _values_of_settings, jax.config
    others = [name for name in _SETTINGS if name not in known]
    if not others:
        return key, type, None
    try:  # jax.config looks each value up by its name
        holders = types.SimpleNamespace(
            **{name: jax.config._value_holders[name] for name in others})
        values = operator.attrgetter(*[f"{name}.value" for name in others])
        values(holders)
    except (AttributeError, KeyError):
        holders, values = jax.config, operator.attrgetter(*others)
    return key, values, holders


key, others, holders = _make_context()


def context():
    """What changes with the settings. A call compares key() and others(holders) by itself, which
    is faster."""
    return key(), others(holders)


def tracing(leaves):
    """Whether one of the leaves is a tracer."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def refuse_tracers(leaves):
    """A TypeError that says what to do, for a call from another transformation of JAX."""
    tracer = next(leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer))
    raise TypeError(_TRACED.format(type(tracer).__name__.removesuffix("Tracer") or "JAX"))


def are_leaves(arguments):
    """Whether each argument is one leaf, as those of the usual classes are."""
    return _LEAVES.issuperset(map(type, arguments))


def kinds(args, leaves):
    """What tells arguments that have these leaves from others: for each None if it is a leaf, (list
    or tuple, its length) if it is one of leaves. None where an argument is something else."""
    found, given = [], list(leaves)
    for arg in args:
        is_sequence = type(arg) in (list, tuple)
        parts = list(arg) if is_sequence else [arg]
        if len(parts) > len(given) or not all(map(operator.is_, parts, given)):
            return None
        del given[:len(parts)]
        found.append((type(arg), len(arg)) if is_sequence else None)
    return None if given else found


def describe(leaf, x64):
    """The type of a leaf as JAX sees it: (shape, dtype, whether it is weak), or None for what is no
    array, and for a tracer. A jax.ShapeDtypeStruct may stand for one."""
    kind = type(leaf)
    if kind in _ARRAYS:
        return leaf.shape, leaf.dtype, leaf.weak_type
    if kind is np.ndarray or isinstance(leaf, np.generic):
        dtype = leaf.dtype
        return leaf.shape, dtype if x64 else _X64.get(dtype, dtype), False
    if kind in _SCALARS:
        dtype = _SCALARS[kind]
        return (), dtype if x64 else _X64.get(dtype, dtype), kind is not bool
    if kind is LazyArray:
        return leaf.shape, leaf.dtype, False
    if isinstance(leaf, jax.core.Tracer):
        return None
    if isinstance(leaf, jax.Array):
        if hasattr(kind, "weak_type"):
            _ARRAYS.add(kind)
            _LEAVES.add(kind)
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        dtype = leaf.dtype
        return (tuple(leaf.shape), dtype if x64 else _X64.get(dtype, dtype),
                bool(getattr(leaf, "weak_type", False)))
    if hasattr(leaf, "__jax_array__"):
        return describe(leaf.__jax_array__(), x64)
    return None


def without_lazy(tree):
    """The tree with the types of LazyArrays in their place, which tracing does not read."""
    if not any(type(leaf) is LazyArray for leaf in jax.tree_util.tree_leaves(tree)):
        return tree
    return jax.tree_util.tree_map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if type(leaf) is LazyArray
        else leaf, tree)


def array_of(leaf, dtype):
    """The dense array of that dtype that a program reads for a leaf; of a typed key the bits."""
    if type(leaf) is LazyArray and leaf.dtype == dtype:
        return leaf.unread()
    if hasattr(leaf, "__jax_array__"):
        leaf = leaf.__jax_array__()
    array = bits_of(leaf) if is_key(dtype) else np.asarray(leaf, dtype)
    return np.require(array, requirements=["C", "A"])
