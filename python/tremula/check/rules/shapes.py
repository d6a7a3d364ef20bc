"""Shapes that are not known when the program is compiled, and where they became so."""

import ast

from tremula.check import names
from tremula.check.rules import add_argument, rule

DATASET_METHODS = ("map", "shuffle", "repeat", "prefetch", "cache", "take", "skip", "filter",
                   "interleave", "flat_map", "shard", "zip", "with_options", "concatenate",
                   "batch", "padded_batch", "apply", "enumerate", "unbatch", "window")
_FOLDERS = ("tf.keras.utils.image_dataset_from_directory",
            "tf.keras.utils.text_dataset_from_directory",
            "tf.keras.preprocessing.image_dataset_from_directory",
            "tf.keras.preprocessing.text_dataset_from_directory")
_TELLING = ("shuffle", "prefetch", "interleave", "flat_map", "map", "padded_batch", "cache")
_PYTHON = ("tf.numpy_function", "tf.py_function", "tf.py_func")
_SHAPING = ("set_shape", "ensure_shape", "tf.reshape(", "padded_shapes", "resize")
_OWN_WORDS = ("shuffle", "prefetch", "interleave", "flat_map", "padded_batch", "cache")
_DISTRIBUTING = ("experimental_distribute_dataset", "distribute_datasets_from_function",
                 "experimental_distribute_datasets_from_function")


def is_dataset(project, file, node, seen=None):
    """Whether an expression is a tf.data.Dataset for sure. seen: what has been asked already."""
    seen = set() if seen is None else seen
    if node is None or isinstance(node, str) or node in seen:
        return False
    seen.add(node)
    if isinstance(node, ast.Name):
        scope = node.scope.find(node.id)
        if scope is not None and node.id in scope.parameters and len(scope.bound[node.id]) == 1:
            return any(is_dataset(project, *one, seen)
                       for one in project.possible(file, node) or ())
        return any(_follows(one, node) or is_dataset(project, file, one, seen)
                   for one in file.values(node))
    if isinstance(node, ast.Subscript):  # one of the results of a function
        index = names.constant(node.slice)
        return isinstance(index, int) and isinstance(node.value, ast.Call) and any(
            isinstance(result, ast.Tuple) and index < len(result.elts)
            and is_dataset(project, other, result.elts[index], seen)
            for other, result in _results(project, file, node.value))
    if not isinstance(node, ast.Call):
        return False
    called = file.called(node) or ""
    if called.startswith("tf.data.") and called.split(".")[2].endswith("Dataset") \
            or called in (*_FOLDERS, "tensorflow_datasets.load"):
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr in _DISTRIBUTING:
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr in DATASET_METHODS:
        if is_dataset(project, file, node.func.value, seen):
            return True
        owner = node.func.value  # parameter.shuffle(9).repeat()
        return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) \
            and owner.func.attr in _TELLING and node.func.attr in DATASET_METHODS \
            and not called.startswith(("np.", "tf."))
    return any(is_dataset(project, other, result, seen)
               for other, result in _results(project, file, node))


def _results(project, file, call):
    """Yields (file, expression) of what the functions that a call may call return."""
    for other, function in project.functions(file, call.func, 3):
        for one in ast.walk(function):
            if isinstance(one, ast.Return):
                yield other, one.value


def _follows(value, name):
    """Whether an assignment is x = x.shuffle(...), or another word that only a dataset has."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) \
        and value.func.attr in _OWN_WORDS and isinstance(value.func.value, ast.Name) \
        and value.func.value.id == name.id


def _is_for_the_host(file, call):
    """Whether the chain that begins with a call has a word behind it that takes batches apart, or
    a preprocessing layer adapts to it."""
    node = call
    while isinstance(getattr(node, "parent", None), ast.Attribute) and isinstance(
            getattr(node.parent, "parent", None), ast.Call):
        if node.parent.attr in ("unbatch", "as_numpy_iterator", "window"):
            return True
        node = node.parent.parent
    readers = [node]
    if isinstance(node.parent, ast.Assign) and isinstance(node.parent.targets[0], ast.Name):
        name = node.parent.targets[0]
        readers = [one for one in file.nodes if isinstance(one, ast.Name) and one.id == name.id
                   and isinstance(one.ctx, ast.Load) and one.scope.find(one.id) is name.scope]
    return bool(readers) and all(
        isinstance(one.parent, ast.Call) and isinstance(one.parent.func, ast.Attribute)
        and one.parent.func.attr == "adapt" for one in readers)


@rule(
    "drop-remainder", "error", "Batches whose last one may be smaller",
    """`batch(n)` gives batches of an unknown size, because the last one may be smaller. An IPU
    program is compiled for one size.""",
    """`batch(n, drop_remainder=True)`; where no item may be lost, `repeat()` before it.""",
    """
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).batch(2)
    """,
    """
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).batch(2, drop_remainder=True)
    """)
def drop_remainder(project):
    for file, call, called in project.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("batch", "padded_batch"):
            method, position = call.func.attr, 1 if call.func.attr == "batch" else 3
            if not call.args and not call.keywords or _is_for_the_host(file, call):
                continue
            given = names.argument(call, "drop_remainder", position)
            if names.is_open_ended(call) if given is None else not _is_false(project, file, given):
                continue
            if not is_dataset(project, file, call.func.value) and not _is_chain(file, call):
                continue
            edit = add_argument(file, call, "drop_remainder=True") if given is None else None
            yield file, call.func, (f"{method}() without drop_remainder=True gives batches of "
                                    "unknown size"), edit
        elif called in _FOLDERS and not _is_for_the_host(file, call) and names.constant(
                names.argument(call, "batch_size"), 0) is not None:
            yield file, call.func, (f"{called.split('.')[-1]}() gives batches of unknown size; add "
                                    ".unbatch().batch(n, drop_remainder=True)")
        elif called in ("tf.contrib.data.map_and_batch", "tf.data.experimental.map_and_batch") \
                and names.argument(call, "drop_remainder") is None:
            yield file, call, (f"{called.split('.')[-1]}() without drop_remainder=True gives "
                               "batches of unknown size")


def _is_false(project, file, node):
    """Whether an expression is False, whatever the program's calls give."""
    values = project.possible(file, node)
    return bool(values) and all(names.constant(one, True) is False for _, one in values)


def _is_chain(file, call):
    """Whether the method call follows another of a dataset: data.shuffle(99).batch(9)."""
    owner = call.func.value
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) \
        and owner.func.attr in _TELLING and not (file.called(owner) or "tf.").startswith("np.") \
        and owner.func.attr in ("shuffle", "prefetch", "interleave", "map", "cache") \
        and not file.called(owner)


@rule(
    "unknown-shape", "error", "A shape that is unknown when the program is compiled",
    """A dimension of None is known only when data comes. An IPU program is compiled for one shape;
    Tremula compiles again for each set of shapes, a real IPU refuses.""",
    """Write the number: `tf.placeholder(tf.float32, [BATCH, 784])`, `batch_size=` of `Input`, and
    pad sequences to one length.""",
    """
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    images = tf.placeholder(tf.float32, [None, 784], name="images")
    """,
    """
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    images = tf.placeholder(tf.float32, [32, 784], name="images")
    """)
def unknown_shape(project):
    for file, call, called in project.calls():
        if called in ("tf.placeholder", "tf.TensorSpec", "tf.keras.Input", "tf.keras.layers.Input",
                      "tf.placeholder_with_default"):
            is_spec, is_input = called == "tf.TensorSpec", called.endswith("Input")
            if is_spec and not _of_function(call):
                continue
            node = names.argument(call, "shape", 0 if is_input or is_spec else 1)
            if node is None and called == "tf.placeholder" and not names.is_open_ended(call):
                if not _is_scalar_setting(call):
                    yield file, call, "this placeholder has no shape"
                continue
            place = _none_in(project, file, node)
            if place is not None and not _is_scalar_setting(call):
                kind = {"tf.TensorSpec": "signature", "tf.placeholder": "placeholder"}.get(
                    called, "input")
                yield file, place, f"a dimension of this {kind} is unknown when it is compiled"
        elif called == "tf.data.Dataset.from_generator" and not names.is_open_ended(call) \
                and names.argument(call, "output_shapes", 2) is None \
                and names.argument(call, "output_signature") is None \
                and not any(word in file.text for word in _SHAPING):
            yield file, call.func, ("from_generator() without output_signature= gives elements of "
                                    "unknown shapes")
        elif called in _PYTHON and any(one in project.hosted for one in names.parents(call)) \
                and _is_mapped(project, call) \
                and not any(word in file.text for word in _SHAPING):
            yield file, call.func, (f"{called} gives what has no shape: say it with set_shape, or "
                                    "tf.ensure_shape")
        elif called == "tf.TensorArray" and project.comes_to_ipu(file, call) and names.constant(
                names.argument(call, "dynamic_size", 2)) is True and names.constant(
                    names.argument(call, "size", 1), 0) == 0:
            yield file, call, "a TensorArray that begins empty cannot grow: give its size"
        elif called == "tf.while_loop" and project.comes_to_ipu(file, call):
            for one in _written_nones(names.argument(call, "shape_invariants", 3)):
                yield file, one, "a dimension of this loop's variable changes as it runs"
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "padded_batch" \
                and is_dataset(project, file, call.func.value) and not _is_for_the_host(file, call):
            place = next(_written_nones(names.argument(call, "padded_shapes", 1)), None)
            if place is not None:
                yield file, place, "each batch is padded to its own longest element"


def _is_mapped(project, call):
    """Whether the function around a call is what a dataset maps, and not filters, say."""
    function = names.function_around(call)
    return any(isinstance(one.func, ast.Attribute) and one.func.attr == "map" and one.args
               and any(function is mapped
                       for _, mapped in project.functions(file, one.args[0]))
               for file, one, _ in project.calls())


def _is_scalar_setting(call):
    """Whether a placeholder is a flag or a rate by its name: it may have any shape."""
    name = names.constant(names.argument(call, "name", 2), "")
    target = call.parent.targets[0] if isinstance(call.parent, ast.Assign) else None
    words = f"{name} {getattr(target, 'id', getattr(target, 'attr', ''))}".lower()
    return len(call.args) < 2 and any(word in words for word in (
        "rate", "prob", "train", "lr", "step", "dropout"))


def _of_function(call):
    """Whether a TensorSpec is in the input_signature of a function."""
    return any(isinstance(one, ast.keyword) and one.arg == "input_signature"
               for one in names.parents(call))


def _none_in(project, file, node):
    """The None in a shape that is written out, also by a name."""
    value = file.value(node) if isinstance(node, ast.Name) else node
    if isinstance(value, (ast.List, ast.Tuple)):
        for one in value.elts:
            values = project.possible(file, one)
            if values and all(isinstance(part, ast.Constant) and part.value is None
                              for _, part in values):
                return one if value is node else node
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _none_in(project, file, value.left) or _none_in(project, file, value.right)
    return None


def _written_nones(node):
    """Yields each None in a structure of shapes that is written out."""
    if isinstance(node, ast.Constant) and node.value is None:
        yield node
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else node.values \
        if isinstance(node, ast.Dict) else node.args if isinstance(node, ast.Call) else []
    for one in parts:
        yield from _written_nones(one)
