"""From a function and its arguments to a compiled program, by JAX's tracing and lowering."""

from typing import NamedTuple

import jax
import numpy as np

from tremula import core
from tremula.jax import lapack

# What comes into a program as a custom call that no kernel computes, and what to do about it.
_CALLBACK = ("It is a call of Python in the middle of the program (jax.debug.print, "
             "jax.pure_callback, jax.experimental.io_callback), which this version of JAX makes in "
             "a form of its own: take a newer JAX, or return the value and use it outside")
_KERNEL = ("It is a kernel that was written for one kind of device (Pallas, Triton, "
           "jax.ffi.ffi_call): call the same in jax.numpy or jax.lax")
_LAPACK = "docs/jax.md lists the functions of LAPACK that Tremula has"
_ADVICE = (("python_cpu_callback", _CALLBACK), ("LAPACK", _LAPACK), ("custom call", _KERNEL))

# JAX before 0.5 calls LAPACK in a form that has no kernel. It lowers the same functions without
# LAPACK for a platform that it does not know, and eigenvalues for a TPU.
_OLD_LAPACK, _GENERAL = ("LAPACK", "'blas_", "'lapack_"), ("ipu", "tpu")


class Type(NamedTuple):
    """What an argument or a result is for JAX: of a typed key the array holds the bits."""
    shape: tuple
    dtype: object


class Lowered(NamedTuple):
    """A function lowered for one signature. Arguments and results are leaves, in order."""
    module: core.Module
    in_tree: object
    out_tree: object
    arguments: list
    results: list
    donated: list
    callbacks: list  # functions of Python that the program calls, by number


def lower(jitted, args, kwargs):
    """Lowers a function that jax.jit made, with keep_unused, for these arguments."""
    lowered = jitted.lower(*args, **kwargs)
    arguments = jax.tree_util.tree_leaves(lowered.args_info)
    return Lowered(
        _read(lowered), lowered.in_tree, lowered.out_tree,
        [Type(tuple(one.shape), one.dtype) for one in arguments],
        [Type(tuple(one.shape), one.dtype) for one in jax.tree_util.tree_leaves(lowered.out_info)],
        [one.donated for one in arguments], _callbacks(lowered))


def _callbacks(lowered):
    inner = getattr(lowered, "_lowering", None)
    return list(getattr(inner, "compile_args", {}).get("host_callbacks") or ())


def _read(lowered):
    return core.Module.read(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(),
                            "what JAX lowered")


def compile_module(lowered, jitted, args, kwargs, options):
    """The executable of a Lowered."""
    lapack.settle()
    try:
        return core.compile(lowered.module, **options)
    except core.UnimplementedError as error:
        problem = error
    message = str(problem)
    for platform in _GENERAL if any(word in message for word in _OLD_LAPACK) else ():
        try:
            general = jitted.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
            return core.compile(_read(general), **options)
        except (NotImplementedError, core.UnimplementedError):
            pass  # the message of the first attempt names what the function calls
    raise core.UnimplementedError(message + _advice(message)) from None


def _advice(message):
    return next((f". {advice}" for word, advice in _ADVICE if word in message), "")


def is_key(dtype):
    """Whether a dtype is that of jax.random.key()."""
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def is_float0(dtype):
    """Whether a dtype is that of the gradient of an integer, which has no bits."""
    return dtype == jax.dtypes.float0


def bits_of(key):
    """The array behind a typed key."""
    return np.asarray(jax.random.key_data(key))
