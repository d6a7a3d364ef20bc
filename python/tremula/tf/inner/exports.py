"""The names under which TensorFlow shows its ops, what op its own functions cannot do without, and
the ops that every device has."""

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap

from tensorflow.python.framework import kernels
import tensorflow
import tensorflow.python.ops as ops_package


def generated_functions():
    """Yields (public name, function) of every exported function that is made of an op."""
    for module in pkgutil.iter_modules(ops_package.__path__):
        if not module.name.startswith("gen_"):
            continue
        loaded = importlib.import_module(f"tensorflow.python.ops.{module.name}")
        for name, value in vars(loaded).items():
            public = [*getattr(value, "_tf_api_names", ()), *getattr(value, "_tf_api_names_v1", ())]
            for one in public if callable(value) else ():
                yield one, name


def written_functions():
    """Yields (public name, function) of every function that TensorFlow shows and its `ops` has."""
    waiting, seen = [("tensorflow", tensorflow), ("tensorflow", tensorflow.compat.v1)], set()
    while waiting:
        path, module = waiting.pop()
        for name in () if module in seen else dir(module):
            value = None if name.startswith("_") else getattr(module, name, None)
            if inspect.isfunction(value) and value.__module__.startswith("tensorflow.python.ops"):
                yield f"{path}.{name}", value
            elif inspect.ismodule(value) and "_api." in value.__name__ and name not in (
                    "compat", "keras", "estimator"):
                waiting.append((f"{path}.{name}", value))
        seen.add(module)


@functools.cache
def needed_ops(function, deep=4):
    """The generated functions that each way through a function calls, itself or in a function of
    its module; empty where its text does not tell."""
    try:
        function = inspect.unwrap(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, ValueError):
        return frozenset()
    if not isinstance(tree, ast.FunctionDef):
        return frozenset()
    return _needed(tree.body, function.__globals__, deep) or frozenset()


def _needed(statements, known, deep, branches=8):
    """What each way through statements calls; None if each ends in `raise`."""
    found = set()
    for number, one in enumerate(statements):
        if isinstance(one, ast.Raise):
            return None
        if isinstance(one, ast.If) and branches:
            rest = statements[number + 1:]
            ways = [_needed([*way, *rest], known, deep, branches - 1)
                    for way in (one.body, one.orelse)]
            ways = [way for way in ways if way is not None]
            return found | set.intersection(*map(set, ways)) if ways else None
        if isinstance(one, ast.With):
            inner = _needed([*one.body, *statements[number + 1:]], known, deep, branches)
            return None if inner is None else found | inner
        if isinstance(one, (ast.Expr, ast.Assign, ast.Return)) and one.value is not None:
            found |= _calls(one.value, known, deep)
        if isinstance(one, ast.Return):
            break
    return found


def _calls(node, known, deep):
    """What an expression calls for sure."""
    if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.GeneratorExp)):
        return set()
    found = set()
    for one in ast.iter_child_nodes(node):
        found |= _calls(one, known, deep)
    if not isinstance(node, ast.Call):
        return found
    owner, name = node.func, None
    if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name):
        owner, name = owner.value, owner.attr
    value = known.get(owner.id) if isinstance(owner, ast.Name) else None
    if name and inspect.ismodule(value):
        if value.__name__.rpartition(".")[2].startswith("gen_"):
            return found | {name}
        value = getattr(value, name, None)
    if deep and inspect.isfunction(value) and value.__module__.startswith("tensorflow.python.ops"):
        found |= needed_ops(value, deep - 1)
    return found


def ops_for_every_device():
    """The ops that have a kernel of the device type DEFAULT."""
    return {kernel.op for kernel in kernels.get_all_registered_kernels().kernel
            if kernel.device_type == "DEFAULT"}
