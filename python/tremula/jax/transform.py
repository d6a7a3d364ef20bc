"""tremula.jax.jit and tremula.jax.compile."""

import functools
import inspect
import threading
import types

import jax

from tremula import core
from tremula.jax import arguments, lowering
from tremula.jax.executable import OUTPUTS, Executable, Program, finisher

_REFUSED = {
    "in_shardings": "IPUs are chosen by plan(ipus=...)",
    "out_shardings": "IPUs are chosen by plan(ipus=...)",
    "device": "there is one device", "backend": "there is one device",
    "inline": "a jitted function is always inlined into another",
    "abstracted_axes": "an IPU program has fixed shapes",
    "compiler_options": "those of Tremula are options={...}",
}
_state = threading.local()
_flatten = jax.tree_util.default_registry.flatten  # without the function around it
_key, _others, _holders = arguments.key, arguments.others, arguments.holders


def _tracing_here():
    return getattr(_state, "depth", 0) > 0


def jit(fun=None, *, static_argnums=None, static_argnames=None, donate_argnums=None,
        donate_argnames=None, keep_unused=False, outputs="numpy", options=None, **others):
    """Compiles `fun` by Tremula at its first call with arguments of new shapes or types; as
    jax.jit.

    static_argnums, static_argnames    arguments that are a part of the program
    donate_argnums, donate_argnames    arguments whose memory results may take
    keep_unused                        accepted; unused arguments are always kept
    outputs                            "numpy", "jax" or "lazy": what arrays the results are
    options                            a dict of options of the compiler: {"target": "bow"}

    Without `fun`, a decorator. Raises TypeError for what is no function and for other options,
    ValueError for other `outputs`; a call raises core.UnimplementedError for ordered effects.
    """
    given = {name: value for name, value in (
        ("static_argnums", static_argnums), ("static_argnames", static_argnames),
        ("donate_argnums", donate_argnums), ("donate_argnames", donate_argnames))
        if value is not None}
    for name in others:
        why = f": {_REFUSED[name]}" if name in _REFUSED else ""
        raise TypeError(f"tremula.jax.jit has no option {name}{why}")
    if outputs not in OUTPUTS:
        raise ValueError(f'outputs is "numpy", "jax" or "lazy", not {outputs!r}')
    if not isinstance(keep_unused, bool):
        raise TypeError(f"keep_unused is True or False, not {keep_unused!r}")
    if fun is None:
        return lambda function: _Jitted(function, given, outputs, options)
    return _Jitted(fun, given, outputs, options)


def compile(fun, *args, **kwargs):  # pylint: disable=redefined-builtin
    """Compiles `fun`, a function or what tremula.jax.jit made, for arguments like these, of which
    jax.ShapeDtypeStructs will do. Returns an Executable."""
    return (fun if isinstance(fun, _Jitted) else jit(fun)).compile(*args, **kwargs)


class _Jitted:
    """A function with its compiled programs, by the types of its arguments."""

    def __init__(self, function, given, outputs, options):
        if not callable(function):
            raise TypeError(f"tremula.jax.jit wants a function, not {type(function).__name__}")
        if isinstance(function, _Jitted):
            function = function.__wrapped__
        self._jitted = jax.jit(_counted(function), keep_unused=True, **given)
        self._options = dict(options or {})
        self._outputs = outputs
        self._static = _Static(function, given) if {"static_argnums", "static_argnames"} & set(
            given) else None
        self._programs = {}
        # Of the last call: (tree, context, jax_enable_x64, Program.run, finisher, the kinds of its
        # arguments if not all are leaves, how many there are, or -1 if they have no kinds).
        self._last = None
        self._lock = threading.RLock()
        functools.update_wrapper(self, function)
        self.__wrapped__ = function

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return f"<tremula.jax.jit of {getattr(self, '__name__', self.__wrapped__)}>"

    def __call__(self, *args, **kwargs):
        last = self._last
        if last is not None:
            # Most calls are like the one before: leaves that are the same need no description.
            known, (key, others), x64, run, finish, kinds, count = last
            is_flat = len(args) == count and not kwargs
            if is_flat and kinds is not None:
                leaves = []
                for arg, kind in zip(args, kinds):
                    if kind is None:
                        leaves.append(arg)
                    elif type(arg) is kind[0] and len(arg) == kind[1]:
                        leaves += arg
                    else:
                        is_flat = False
                        break
            else:
                leaves = args
            if not is_flat:
                leaves, tree = _flatten((args, kwargs))
            if _key() == key and _others(_holders) == others and (is_flat or tree == known):
                results = run(leaves, x64, is_flat)
                if results is not None:
                    return finish(results)
        context = arguments.context()
        if self._static is None:
            fixed, dynamic = None, (args, kwargs)
        else:
            fixed, dynamic = self._static.split(args, kwargs)
        leaves, tree = _flatten(dynamic)
        settings = arguments.settings()
        key = tree, tuple([arguments.describe(one, settings[0]) for one in leaves]), fixed, settings
        try:
            found = self._programs.get(key)
        except TypeError:  # a static argument that cannot be hashed, of which JAX complains
            found, key = None, None
        if found is None:
            if arguments.tracing(leaves):
                if _tracing_here():
                    return self._jitted(*args, **kwargs)
                arguments.refuse_tracers(leaves)
            found = self._find(key, args, kwargs)
        program, finish = found
        if self._static is None and key is not None:
            kinds = None if kwargs else arguments.kinds(args, leaves)
            count = -1 if kinds is None else len(args)
            self._last = (tree, context, settings[0], program.run, finish,
                          kinds if kinds and any(kinds) else None, count)
        return finish(program.run(leaves))

    def _find(self, key, args, kwargs):
        """The program for a key, compiled unless another thread has done it."""
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                program, lowered = self._compile(args, kwargs, key and key[1])
                found = self._programs[key] = program, finisher(lowered.out_tree, self._outputs)
            return found

    def _compile(self, args, kwargs, types=None):
        args, kwargs = arguments.without_lazy((args, kwargs))
        lowered = lowering.lower(self._jitted, args, kwargs)
        executable = lowering.compile_module(lowered, self._jitted, args, kwargs, self._options)
        if len(executable.inputs) != len(lowered.arguments):
            raise core.UnimplementedError(
                "the function has ordered effects, which need a token; take callbacks with "
                "ordered=True out of it")
        return Program(executable, lowered, types, self._outputs == "lazy"), lowered

    def compile(self, *args, **kwargs):
        """Compiles for arguments of these shapes and types (jax.ShapeDtypeStructs will do). Returns
        an Executable."""
        program, lowered = self._compile(args, kwargs)
        return Executable(program, lowered, getattr(self, "__name__", "the function"),
                          self._outputs)

    def clear_cache(self):
        """Forgets the compiled programs."""
        with self._lock:
            self._programs.clear()
            self._last = None
            self._jitted.clear_cache()


def _counted(function):
    """The function; while it is traced, jitted functions within it are inlined."""
    @functools.wraps(function)
    def traced(*args, **kwargs):
        _state.depth = getattr(_state, "depth", 0) + 1
        try:
            return function(*args, **kwargs)
        finally:
            _state.depth -= 1
    return traced


class _Static:
    """Which arguments are static. As in jax.jit, the names follow from the numbers, and the other
    way round, where only one of both is given."""

    def __init__(self, function, given):
        numbers, names = given.get("static_argnums"), given.get("static_argnames")
        numbers = None if numbers is None else _several(numbers)
        names = None if names is None else _several(names)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            parameters = {}
        positional = [name for name, one in parameters.items() if one.kind in (
            one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        by_name = {name for name, one in parameters.items()
                   if one.kind is one.POSITIONAL_OR_KEYWORD}
        if names is None:
            names = [positional[n] for n in numbers
                     if -len(positional) <= n < len(positional) and positional[n] in by_name]
        elif numbers is None:
            numbers = [n for n, name in enumerate(positional) if name in names]
        self._numbers, self._names = set(numbers), frozenset(names)

    def split(self, args, kwargs):
        """The static arguments, by which programs are told apart, and the others."""
        count = len(args)
        numbers = {n + count if n < 0 else n for n in self._numbers}
        fixed = tuple([(type(args[n]), args[n]) for n in sorted(numbers) if 0 <= n < count])
        named = tuple([(name, type(kwargs[name]), kwargs[name])
                       for name in sorted(self._names & kwargs.keys())])
        dynamic = (tuple([one for n, one in enumerate(args) if n not in numbers]),
                   {name: one for name, one in kwargs.items() if name not in self._names})
        return (fixed, named, tuple(sorted(numbers))), dynamic


def _several(given):
    return (given,) if isinstance(given, (int, str)) else tuple(given)
