"""Types of the elements of datasets, as far as the code tells: where a dataset's `map` casts a
label, of what type a record's feature is, what a generator gives.

A Reader walks from a dataset back to where its elements come from, and through a function that the
dataset maps from the results back to the parameters, which are parts of the elements before. A
*path* leads to a part: (1, "age") is element[1]["age"], () all of it. `known` has the parameters of
the function that is being read: {name: function(read, path, deep)}, where `read` is of_dataset or
of_value.
"""

import ast
from typing import Any, NamedTuple

from tremula.check import names
from tremula.check.project import names_of, results

_DEEP = 60  # steps back
_MOST_STEPS = 20000  # of a Reader: what branches again and again has too many ways back
# Functions whose result has the type of their first argument.
_ALIKE = {
    "tf.broadcast_to", "tf.clip_by_value", "tf.ensure_shape", "tf.expand_dims", "tf.gather",
    "tf.identity", "tf.image.flip_left_right", "tf.image.random_crop",
    "tf.image.random_flip_left_right", "tf.image.resize_with_crop_or_pad", "tf.maximum",
    "tf.minimum", "tf.pad", "tf.random_crop", "tf.reshape", "tf.reverse", "tf.roll", "tf.slice",
    "tf.sparse.to_dense", "tf.sparse_tensor_to_dense", "tf.squeeze", "tf.tile", "tf.transpose"}
_CASTS = {"tf.cast": ("dtype", 1), "tf.strings.to_number": ("out_type", 1),
          "tf.string_to_number": ("out_type", 1), "tf.constant": ("dtype", 1),
          "tf.zeros": ("dtype", 1), "tf.ones": ("dtype", 1), "tf.fill": ("dtype", 9),
          "tf.random.uniform": ("dtype", 3), "tf.image.convert_image_dtype": ("dtype", 1),
          "tf.io.decode_raw": ("out_type", 1), "tf.decode_raw": ("out_type", 1)}
_RECORDS = ("tf.io.parse_single_example", "tf.parse_single_example", "tf.io.parse_example",
            "tf.parse_example")
_PYTHON = ("tf.numpy_function", "tf.py_function", "tf.py_func")
_FEATURES = {"FixedLenFeature": 1, "VarLenFeature": 0, "FixedLenSequenceFeature": 1}
# Layers that number texts, in int64 if they are not told otherwise.
_NUMBERING = ("StringLookup", "IntegerLookup", "TextVectorization", "Hashing")
_SAME_ELEMENTS = ("batch", "padded_batch", "shuffle", "repeat", "prefetch", "cache", "take", "skip",
                  "filter", "shard", "with_options", "unbatch", "make_one_shot_iterator",
                  "make_initializable_iterator", "get_next")
_FOLLOWING = ("iter", "next", "tf.data.make_one_shot_iterator",
              "tf.data.make_initializable_iterator")
_DISTRIBUTING = ("distribute_datasets_from_function",
                 "experimental_distribute_datasets_from_function")
_APPLIED = ("map_and_batch", "shuffle_and_repeat", "ignore_errors", "prefetch_to_device")
_SLICES = ("tf.data.Dataset.from_tensor_slices", "tf.data.Dataset.from_tensors")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


class Found(NamedTuple):
    """What gives a part of an element its type, by name. node: where to say so; written: the node
    that names the type there, or None."""
    file: Any
    node: Any
    type: str
    written: Any = None


class Reader:
    """Reads the types of one dataset's elements, or of a value. Each function returns a list of
    Found."""

    def __init__(self, project):
        self._project, self._steps = project, 0

    # ---- Datasets ----

    def of_dataset(self, file, node, path=(), known=None, deep=_DEEP):
        """The parts at `path` of a dataset's elements."""
        known, self._steps = known or {}, self._steps + 1
        if deep <= 0 or not isinstance(node, ast.Call):
            return self._of_other(self.of_dataset, file, node, path, known, deep)
        called = file.called(node) or ""
        if called == "tf.data.Dataset.zip" and node.args:
            return self._of_zip(file, node.args[0], path, known, deep)
        if called in _SLICES and node.args:
            return self.of_value(file, node.args[0], path, known, deep - 1)
        if called == "tf.data.Dataset.from_generator":
            return self._of_generator(file, node, path)
        if called == "tf.data.Dataset.range":
            return [] if names.argument(node, "output_type") is not None else [
                Found(file, node, "int64")]
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called in _FOLLOWING or method == "experimental_distribute_dataset" \
                or not called and names_of(node.func) in _FOLLOWING:
            return self.of_dataset(file, node.args[0], path, known, deep - 1) if node.args else []
        if method in _DISTRIBUTING:
            return [one for other, function in self._project.functions(
                file, node.args[0] if node.args else None) for result in results(function)
                    for one in self.of_dataset(other, result, path, None, deep - 1)]
        if method == "apply" and node.args:
            return self._of_mapped(file, node, node.args[0], path, known, deep)
        if method == "map" and not called.startswith("tf."):
            return self._of_mapped(file, node, node, path, known, deep)
        if method in _SAME_ELEMENTS:
            return self.of_dataset(file, node.func.value, path, known, deep - 1)
        return self._of_results(self.of_dataset, file, node, path, known, deep)

    def _of_mapped(self, file, node, applied, path, known, deep):
        """The elements of dataset.map(function), or dataset.apply(map_and_batch(function))."""
        before = node.func.value
        word = applied.func.attr if isinstance(applied, ast.Call) \
            and isinstance(applied.func, ast.Attribute) else ""
        if word not in ("map", *_APPLIED):
            return []
        if word not in ("map", "map_and_batch"):
            return self.of_dataset(file, before, path, known, deep - 1)
        given = names.argument(applied, "map_func", 0)
        bound = len(given.args) - 1 if isinstance(given, ast.Call) \
            and (file.called(given) or "").endswith("partial") else 0
        found = []
        for other, function in self._project.functions(file, given):
            parameters = _parameters(function)[bound:]
            is_one = len(parameters) - len(function.args.defaults) <= 1
            inner = {name: self._part(file, before, () if is_one else (number,), known)
                     for number, name in enumerate(parameters)}
            for result in results(function):
                for part, rest in _leaves(other, result, path):
                    parts = self.of_value(other, part, rest, inner, deep - 1)
                    found += [one if one.node is not None or rest
                              else one._replace(file=other, node=part) for one in parts]
        return found

    def _part(self, file, dataset, first, known):
        def read(_, path, deep):
            return self.of_dataset(file, dataset, first + path, known, deep - 1)
        return read

    def _of_zip(self, file, node, path, known, deep):
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
        if path:
            parts, path = _item(parts, path[0]), path[1:]
        return [one for part in parts for one in self.of_dataset(file, part, path, known, deep - 1)]

    def _of_generator(self, file, node, path):
        """What a from_generator() says of its elements."""
        given = names.argument(node, "output_types", 1)
        given = names.argument(node, "output_signature") if given is None else given
        found = []
        for part, rest in _leaves(file, given, path):
            is_spec = isinstance(part, ast.Call)
            written = names.argument(part, "dtype", 1) if is_spec else part
            name = names.type_name(file, written)
            if name and not rest:
                found.append(Found(file, written, name, written))
        return found

    # ---- Values ----

    def of_value(self, file, node, path=(), known=None, deep=_DEEP):
        """The parts at `path` of a value. Found.node is None where the type is that of a record's
        feature: what takes the record apart says where."""
        known, self._steps = known or {}, self._steps + 1
        if isinstance(node, (ast.Tuple, ast.List, ast.Dict)):
            return [one for part, rest in _leaves(file, node, path) if part is not node
                    for one in self.of_value(file, part, rest, known, deep - 1)]
        if isinstance(node, ast.Subscript):
            index = names.constant(node.slice)
            return [] if index is None else self.of_value(
                file, node.value, (index, *path), known, deep - 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            found = self.of_value(file, node.left, path, known, deep - 1) \
                or self.of_value(file, node.right, path, known, deep - 1)
            return [one for one in found if "int" not in one.type
                    or not isinstance(node.op, ast.Div)]
        if deep <= 0 or not isinstance(node, ast.Call):
            return self._of_other(self.of_value, file, node, path, known, deep)
        called = file.called(node) or ""
        if called in _CASTS:
            written = names.argument(node, *_CASTS[called])
            name = names.type_name(file, written)
            return [Found(file, written, name, written)] if name and not path else []
        if called in _RECORDS:
            return self._of_record(file, names.argument(node, "features", 1), path)
        if called in _PYTHON:
            return [Found(file, part, name, part) for part, rest in _leaves(
                file, names.argument(node, "Tout", 2), path)
                if (name := names.type_name(file, part)) and not rest]
        if called in _ALIKE and node.args:
            return self.of_value(file, node.args[0], path, known, deep - 1)
        if called in ("tf.argmax", "tf.argmin", "tf.math.argmax", "tf.math.argmin"):
            return [] if names.argument(node, "output_type", 2) is not None else [
                Found(file, node.func, "int64")]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and node.args:
            written = node.args[0]
            name = "int64" if names_of(written) == "int" else names.type_name(file, written)
            return [Found(file, written, name, written)] if name and not path else []
        if called == "np.random.randint" and names.argument(node, "dtype", 3) is None:
            return [Found(file, node.func, "int64")]
        made = file.value(node.func) if isinstance(node.func, ast.Name) else None
        if isinstance(made, ast.Call) and (file.called(made) or "").split(".")[-1] in _NUMBERING:
            told = [one.arg for one in made.keywords]
            return [] if "output_mode" in told or "dtype" in told else [Found(file, node, "int64")]
        return self._of_results(self.of_value, file, node, path, known, deep)

    def _of_record(self, file, node, path):
        if node is not None:
            node = file.value(node) or file.value(_default(node))
        found = []
        for part, _ in _leaves(file, node, path[:1]) if isinstance(node, ast.Dict) else ():
            part = file.value(part)
            word = (file.called(part) or "").split(".")[-1] if isinstance(part, ast.Call) else ""
            name = names.type_name(file, names.argument(part, "dtype", _FEATURES[word])) \
                if word in _FEATURES else None
            if name:
                found.append(Found(file, None, name))
        return found

    # ---- Both ----

    def _of_other(self, read, file, node, path, known, deep):
        """Names, conditions, and one of the results of a function."""
        if deep <= 0 or self._steps > _MOST_STEPS:
            return []
        if isinstance(node, ast.IfExp):
            return [one for part in (node.body, node.orelse)
                    for one in read(file, part, path, known, deep - 1)]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            return self._of_results(read, file, node.value, path, known, deep,
                                    names.constant(node.slice))
        if not isinstance(node, ast.Name):
            return []
        value = bound_before(file, node, path)
        if value is None:
            if node.id in known:
                return known[node.id](read, path, deep - 1)
            return [one for other, part in self._project.possible(file, node) or ()
                    if part is not node for one in read(other, part, path, None, deep - 1)]
        value, path = value
        if not path or isinstance(path[0], _AllBut):
            return self._of_changed(read, file, node, value, path, known, deep)
        return read(file, value, path, known, deep - 1) if isinstance(value, ast.AST) else []

    def _of_changed(self, read, file, name, value, path, known, deep):
        """All parts of a name's value, with those that name[key] = ... or name.pop(key) gave it or
        took from it later. Where the key is not written, nothing is known of it."""
        changed = _changes(name)
        if None in changed:
            return []
        kept = (_AllBut({*changed, *(path[0].keys if path else ())}),) if changed else path
        found = read(file, value, kept, known, deep - 1) if isinstance(value, ast.AST) else []
        return found + [one for stored in changed.values() if stored is not None
                        for one in read(file, stored, (), known, deep - 1)]

    def _of_results(self, read, file, call, path, known, deep, index=None):
        """What the functions of the program that a call calls return; index: of a tuple of results
        this one."""
        if deep <= 0 or self._steps > _MOST_STEPS:
            return []
        found = []
        for other, function in self._project.functions(file, call.func, 3):
            inner = self._arguments(file, call, function, known)
            for result in results(function):
                parts = [result] if index is None else _item(getattr(result, "elts", []), index)
                for part in parts:
                    found += read(other, part, path, inner, deep - 1)
        return found

    def _arguments(self, file, call, function, known):
        def argument(node):
            return lambda read, path, deep: read(file, node, path, known, deep - 1)
        given = dict(zip(_parameters(function), call.args))
        given.update((one.arg, one.value) for one in call.keywords if one.arg)
        return {name: argument(node) for name, node in given.items()}


class _AllBut:
    """In a path: any key of a dictionary but some."""

    def __init__(self, keys):
        self.keys = keys

    def __eq__(self, other):
        return isinstance(other, str) and other not in self.keys

    __hash__ = None


def _changes(name):
    """{key: value, or None where it is taken away} of the items of a name that its function stores
    or takes; the key None stands for one that is not written."""
    scope, found = name.scope.find(name.id), {}
    for one in scope.uses(name.id):
        item = one.parent
        if isinstance(item, ast.Subscript) and item.value is one and isinstance(
                item.ctx, ast.Store) and isinstance(item.parent, ast.Assign):
            found[names.constant(item.slice)] = item.parent.value
        elif isinstance(item, ast.Attribute) and item.attr == "pop" and isinstance(
                item.parent, ast.Call) and item.parent.args:
            found.setdefault(names.constant(item.parent.args[0]), None)
    return found


def _parameters(function):
    return [one.arg for one in [*function.args.posonlyargs, *function.args.args]
            if one.arg not in ("self", "cls")]


def _default(name):
    """The default value of the parameter that a name is, or None."""
    scope = name.scope.find(name.id) if isinstance(name, ast.Name) else None
    if scope is None or not isinstance(scope.node, names.FUNCTIONS):
        return None
    given = scope.node.args
    parameters = [*given.posonlyargs, *given.args][::-1]
    return next((value for one, value in zip(parameters, given.defaults[::-1])
                 if one.arg == name.id), None)


def _item(nodes, index):
    return nodes[index:index + 1] if isinstance(index, int) and index >= 0 else []


def _leaves(file, node, path):
    """Yields (expression, what is left of the path) of the parts of a structure that is written
    out."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for part in _item(node.elts, path[0]) if path else node.elts:
            yield from _leaves(file, part, path[1:])
    elif isinstance(node, ast.Dict):
        for key, part in zip(node.keys, node.values):
            if key is not None and (not path or names.constant(key) == path[0]):
                yield from _leaves(file, part, path[1:])
    elif node is not None:
        yield node, path


def bound_before(file, name, path):
    """(value, path in it) of the last assignment to a name, or to a part of it, before it is read.
    None: it is a parameter there, or nothing."""
    scope = name.scope.find(name.id)
    if scope is None:
        return None
    found = [(one, path) for one in scope.bound[name.id] if isinstance(one, ast.AST)]
    if path:
        found += [(one.parent.parent.value, path[1:]) for one in scope.uses(name.id)
                  if _is_stored(one.parent, path)]
    if name.scope is scope:
        found = [one for one in found if (one[0].end_lineno, one[0].end_col_offset)
                 <= (name.lineno, name.col_offset)]
    return max(found, key=lambda one: (one[0].end_lineno, one[0].end_col_offset), default=None)


def _is_stored(item, path):
    """Whether a node is the name[key] of `name[key] = value`, with the path's first key."""
    return isinstance(item, ast.Subscript) and isinstance(item.parent, ast.Assign) \
        and item.parent.targets[0] is item and names.constant(item.slice) == path[0]
