"""Arrays of NumPy's float64, and how they come to the device."""

import ast

from tremula.check import arrivals, elements, names
from tremula.check.project import names_of, results

_DEEP = 8
_MAKING = {"np.zeros": 1, "np.ones": 1, "np.empty": 1, "np.eye": 9, "np.identity": 1,
           "np.linspace": 9}  # with the position of the type
_DRAWING = ("rand", "randn", "random", "normal", "uniform", "random_sample", "standard_normal",
            "beta", "gamma", "exponential")
_SLICES = ("tf.data.Dataset.from_tensor_slices", "tf.data.Dataset.from_tensors")
_OF_ALL = ("np.exp", "np.log", "np.sqrt", "np.abs", "np.mean", "np.std", "np.sum", "np.concatenate",
           "np.stack", "np.reshape", "np.expand_dims", "np.transpose", "np.random.permutation")


def is_wide(project, file, node, deep=_DEEP):
    """Whether an expression is a number or an array of NumPy's float64 for sure."""
    if node is None or deep == 0:
        return False
    if isinstance(node, ast.Name):
        node = file.value(node)
    elif isinstance(node, ast.Attribute):
        node = file.attribute(node)
    if isinstance(node, ast.BinOp):
        return any(is_wide(project, file, one, deep - 1) for one in (node.left, node.right))
    if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Call):
        return is_wide(project, file, node.value, deep - 1)
    if not isinstance(node, ast.Call):
        return False
    called = _drawn(file, node)
    if called in ("np.float64", "np.double"):
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and node.args:
        return _is_float64(file, node.args[0])
    if called.startswith("np."):
        kind = names.argument(node, "dtype", _MAKING.get(called)) or next(
            (one for one in node.args[1:] if names.type_name(file, one)), None)
        if kind is not None:
            return _is_float64(file, kind)
        if called in ("np.array", "np.asarray"):
            return len(node.args) == 1 and (_has_fraction(node.args[0]) or is_wide(
                project, file, node.args[0], deep - 1))
        return called in _MAKING or called.startswith("np.random.") \
            and called.split(".")[2] in _DRAWING or called in _OF_ALL and bool(node.args) \
            and is_wide(project, file, node.args[0], deep - 1)
    return any(is_wide(project, other, result, deep - 3)
               for other, function in project.functions(file, node.func, 3) if deep > 3
               for result in results(function))


def _is_float64(file, node):
    return names.type_name(file, node) in ("float64", "double") or names_of(node) == "float" \
        and file.resolve(node) == "float"


def _has_fraction(node):
    """Whether a list that is written out has a float, and nothing but numbers."""
    parts = [one for one in ast.walk(node) if isinstance(one, ast.expr)
             and not isinstance(one, (ast.List, ast.Tuple, ast.UnaryOp))]
    return all(isinstance(one, ast.Constant) for one in parts) \
        and any(isinstance(one.value, float) for one in parts)


def _drawn(file, call):
    """The name of NumPy's function, also where a generator of random numbers has it as a method."""
    owner = file.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
    is_generator = isinstance(owner, ast.Call) and file.called(owner) in (
        "np.random.RandomState", "np.random.default_rng")
    return f"np.random.{call.func.attr}" if is_generator else file.called(call) or ""


def given(project, file, call, called):
    """Yields (file, expression, where to) of the arrays of float64 that a call gives the device:
    by a dataset, or as arguments of a compiled function."""
    if called == "ipu.ipu_infeed_queue.IPUInfeedQueue":
        yield from _of_dataset(project, file, names.argument(call, "dataset", 0),
                               "the infeed queue")
    for other, dataset in arrivals.iterators(project, file, call):
        yield from _of_dataset(project, other, dataset, "a compiled function")
    for one in _arguments(project, file, call):
        if is_wide(project, file, one):
            yield file, one, "a compiled function"


def _arguments(project, file, call):
    """What a call of the host gives a compiled function, also by strategy.run(function, args)."""
    if project.how_compiled(file, call):
        return []
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("run", "experimental_run_v2"):
        listed = names.argument(call, "args", 1)
        return getattr(listed, "elts", []) if call.args and any(
            function in project.compiled
            for _, function in project.functions(file, call.args[0])) else []
    if any(function in project.compiled and _is_entry(other, function)
           for other, function in project.functions(file, call.func)):
        return [*call.args, *(one.value for one in call.keywords)]
    return []


def _is_entry(file, function):
    """Whether tf.function itself decorates a function, and takes the types of what it is given."""
    return any(file.resolve(one) == "tf.function" or file.called(one) == "tf.function"
               and names.argument(one, "input_signature", 1) is None
               for one in getattr(function, "decorator_list", ()))


def _of_dataset(project, file, node, where, deep=12):
    """The arrays of float64 at the source of a dataset that no function maps."""
    while deep:
        deep -= 1
        if isinstance(node, ast.Name):
            value = elements.bound_before(file, node, ())
            node = value[0] if value else None
            continue
        if not isinstance(node, ast.Call):
            return
        if file.called(node) in _SLICES:
            parts = node.args[0] if node.args else None
            for one in parts.elts if isinstance(parts, (ast.Tuple, ast.List)) else [parts]:
                if is_wide(project, file, one):
                    yield file, file.value(one) or one, where
            return
        if not isinstance(node.func, ast.Attribute) or node.func.attr in ("map", "apply"):
            return
        node = node.func.value
