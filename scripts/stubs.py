"""Writes stubs for the names that the import finder serves, for editors and type checkers.

    python scripts/stubs.py FOLDER

FOLDER gets `tensorflow-stubs`, `keras-stubs`, `tf_keras-stubs` and `horovod-stubs`, partial in the
sense of PEP 561. They lie beside the files of types-tensorflow, with which they have none in
common. A module's stub is at its first place; every other name of the module is a stub that imports
from there. Signatures and docstrings come from the sources, types from scripts/stub_types.pyi.
Needs no TensorFlow, and runs no module that does.
"""

import ast
import copy
import importlib
import keyword
import pathlib
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"
sys.path.insert(0, str(PYTHON))
from tremula import _finder  # noqa: E402

TYPES = pathlib.Path(__file__).with_name("stub_types.pyi")
# What a stub does not show: an import shows a name in a stub only with "as".
HEAD = """import contextlib
import dataclasses
import enum
from typing import (Any, Callable, ContextManager, Iterator, List, Mapping, Optional, Sequence,
                    Tuple, TypeVar, Union, overload)
import numpy as np
import tensorflow as tf
from tensorflow.python.ipu._typing import (DType, GradsAndVars, Shape, Structure, Tensor,
                                           TensorLike)
"""
# Methods between underscores that a program calls by syntax.
SPECIAL = {"__init__", "__new__", "__call__", "__enter__", "__exit__", "__iter__", "__next__",
           "__len__", "__getitem__", "__setitem__", "__contains__"}
KEPT_DECORATORS = {"property", "staticmethod", "classmethod", "contextmanager", "setter",
                   "dataclass", "overload", "abstractmethod"}
# Packages whose names come from the tables of tremula.tf.keras.lazy and its kin: the table's name.
TABLES = {"tremula.tf.keras": "_NAMES", "tremula.tf.keras.layers": "_PLACES",
          "tremula.tf.keras.optimizers": "_PLACES", "tremula.tf.ipu.optimizers": "_CLASSES"}
# tf.contrib of programs of TensorFlow 1 (tremula.tf1), and Horovod's functions.
CONTRIB, HOROVOD = "tensorflow.contrib", "horovod.tensorflow"
OPEN = "def __getattr__(name: str) -> Any: ...\n"  # of a module that has names from elsewhere too


class Module:
    """A module of Tremula's sources."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.is_package = path.name == "__init__.py"
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        package = name if self.is_package else name.rpartition(".")[0]
        self.imports = {}  # local name -> (module, name there)
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for one in node.names:
                    self.imports[one.asname or one.name] = (node.module, one.name)
        self.stars = [source for source, name in self.imports.values() if name == "*"]
        self.children = sorted(
            one.stem if one.suffix else one.name for one in path.parent.iterdir()
            if is_module(one) and not one.name.startswith("_")) if self.is_package else []
        self.package = package

    def definition(self, name):
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return node
            if isinstance(node, ast.Assign) and any(
                    isinstance(one, ast.Name) and one.id == name for one in node.targets):
                return node
        return None

    def listed(self):
        """The names of a literal `__all__`, or None."""
        node = self.definition("__all__")
        if node is None or not isinstance(node.value, (ast.List, ast.Tuple)):
            return None
        return [one.value for one in node.value.elts]


def is_module(path):
    return path.suffix == ".py" and path.stem != "__init__" or (path / "__init__.py").is_file()


def load(name, cache={}):  # noqa: B006
    """The Module `name`, or None where there is no such file."""
    if name not in cache:
        path = PYTHON.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        cache[name] = Module(name, path) if path.is_file() else None
    return cache[name]


def modules_below(package):
    """`package` and its public modules, as names."""
    yield package
    for child in load(package).children:
        if child != "tests":
            yield from modules_below(f"{package}.{child}")


def places():
    """(module of Tremula -> its first place, other place -> module), by the finder's own tables."""
    first, others = {}, {}
    for alias, package in _finder.ALIASES.items():
        for name in modules_below(package):
            first[name] = alias + name[len(package):]
    for name in modules_below("tremula.tf.keras"):
        first[name] = "tensorflow.python.ipu.keras" + name[len("tremula.tf.keras"):]
    for name in modules_below("tremula.tf1.contrib"):
        first[name] = CONTRIB + name[len("tremula.tf1.contrib"):]
    ipu = "tensorflow.python.ipu"
    for inner in _finder.FLATTENED:
        for child in load(f"tremula.tf.ipu.{inner}").children:
            others.setdefault(f"{ipu}.{child}", f"tremula.tf.ipu.{inner}.{child}")
            if inner == "ops.experimental":
                others.setdefault(f"{ipu}.ops.{child}", f"tremula.tf.ipu.{inner}.{child}")
    for old, new in _finder.MOVED.items():
        others[f"{ipu}.{old}"] = f"tremula.tf.ipu.{new}"
    for alias, package in [(f"{ipu}.layers", "tremula.tf.keras.layers"),
                           *((one, "tremula.tf.keras") for one in _finder.KERAS_IPU
                             if not one.startswith("ipu_"))]:
        for name in modules_below(package):
            others[alias + name[len(package):]] = name
    for place, name in [*((place, name) for name, place in first.items()), *others.items()]:
        if place == ipu or place.startswith(f"{ipu}."):
            others[f"{CONTRIB}.ipu{place[len(ipu):]}"] = name
            others[f"{CONTRIB}.ipu.python{place[len(ipu):]}"] = name
    for name in modules_below("tremula.tf.ipu.horovod"):
        others[HOROVOD + name[len("tremula.tf.ipu.horovod"):]] = name
    taken = set(first.values())
    return first, {place: name for place, name in others.items() if place not in taken}


class Writer:
    """The stub of one module."""

    def __init__(self, module, place, first, types):
        self.module, self.place, self.first = module, place, first
        self.types = types.get(place, {})
        self.imports, self.parts, self.done = [], [], set()

    def text(self):
        if ast.get_docstring(self.module.tree):
            self.parts.append(docstring(self.module.tree, 0))
        self.parts.append(HEAD)
        listed = self.module.listed()
        for node in self.module.tree.body:
            for name in names_of(node):
                if name.startswith("_") and name not in (listed or ()) and name not in self.types:
                    continue
                self.define(name, self.module, node)
        for name, (source, original) in self.module.imports.items():
            if not name.startswith(("_", "*")) and (listed is None or name in listed):
                self.take(name, source, original, bool(listed))
        self.imports += [f"from {self.first[one]} import *" for one in self.module.stars
                         if one in self.first]
        self.lazy()
        self.submodules()
        for name, nodes in self.types.items():
            if name not in self.done:
                self.parts += [ast.unparse(node) for node in nodes]
        return "\n".join([*self.parts[:2], *self.imports, *self.parts[2:]]) + "\n"

    def define(self, name, module, node):
        if name in self.done or keyword.iskeyword(name):
            return
        other, attribute = self.other_name(module, node)
        if other is not None and name not in self.types:
            if other.name in self.first:
                self.again(self.first[other.name], attribute, name)
            elif attribute == name:
                self.define(name, other, other.definition(name))
        if name in self.done:
            return
        self.done.add(name)
        hidden = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and \
            node.value.id.startswith("_") and module.definition(node.value.id)
        if isinstance(hidden, ast.FunctionDef):  # `f = g = _of_no_use`
            node = copy.copy(hidden)
            node.name = name
        if isinstance(node, ast.FunctionDef):
            self.parts.append(function(node, self.types.get(name), 0))
        elif isinstance(node, ast.ClassDef):
            self.parts.append(self.class_of(node, module))
        elif name in self.types:
            self.parts += [ast.unparse(one) for one in self.types[name]]
        else:
            self.parts.append(assignment(name, node.value, module))

    def other_name(self, module, node):
        """(module, name there) of an assignment such as `f = inner.f`; else (None, None)."""
        value = getattr(node, "value", None)
        if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name):
            return None, None
        source = load(".".join(module.imports.get(value.value.id, ("", ""))))
        known = source is not None and source.definition(value.attr) is not None
        return (source, value.attr) if known else (None, None)

    def take(self, name, source, original, listed):
        """A name that the module imports: shown too, if a program can want it from here."""
        module = load(source)
        if module is None or name in self.done:
            return
        if load(f"{source}.{original}") is not None:
            return
        if source in self.first:
            self.again(self.first[source], original, name)
        elif listed or source.startswith(("tremula.tf.ipu", "tremula.tf.keras",
                                          "tremula.tf.plugin", "tremula.tf.testing")):
            node = module.definition(original)
            if node is not None:
                self.define(name, module, node)

    def again(self, place, original, name):
        if place != self.place and name not in self.done:
            self.done.add(name)
            self.imports.append(f"from {place} import {original} as {name}")

    def lazy(self):
        table = TABLES.get(self.module.name)
        if table is not None:
            for name, inner in getattr(importlib.import_module(self.module.name), table).items():
                self.again(f"{self.place}.{inner}", name, name)
        if self.module.name == "tremula.tf.ipu.ops":
            functions = importlib.import_module(self.module.name)
            for name in functions._SCOPES:
                self.again("tensorflow.python.ipu.scopes", name, name)
            for name in functions._SUMMARIES:
                self.again("tensorflow.python.ipu.ops.summary_ops", name, name)
        elif self.module.name.startswith(("tremula.tf.plugin.poplar.ops.gen_", "tremula.tf1.")) \
                and self.module.definition("__getattr__"):
            self.parts.append(OPEN)

    def submodules(self):
        seen = dict.fromkeys(self.module.children)
        if self.module.name == "tremula.tf.ipu":
            seen.update(dict.fromkeys([*flat_children(), *_finder.MOVED, "keras", "layers"]))
        elif self.place == CONTRIB:
            seen.update(ipu=None, slim=None)
        for child in seen:
            if child != "tests":
                self.imports.append(f"from {self.place} import {child} as {child}")

    def class_of(self, node, module):
        bases = [text for text in (self.base(one, module) for one in node.bases) if text]
        lines = [f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"]
        lines += decorated(node, 0, lines)
        if ast.get_docstring(node):
            lines.append(docstring(node, 4))
        given = {one.name: [] for one in self.class_types(node.name)
                 if isinstance(one, ast.FunctionDef)}
        for one in self.class_types(node.name):
            if isinstance(one, ast.FunctionDef):
                given[one.name].append(one)
        done = set(given)
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef):
                if not inner.name.startswith("_") or inner.name in SPECIAL:
                    done.add(inner.name)
                    lines.append(function(inner, given.pop(inner.name, None), 4))
            elif isinstance(inner, ast.ClassDef) and not inner.name.startswith("_"):
                lines += ["    " + one for one in self.class_of(inner, module).splitlines()]
            elif isinstance(inner, (ast.Assign, ast.AnnAssign)):
                for name in names_of(inner):
                    if not name.startswith("_"):
                        done.add(name)
                        lines.append("    " + member(name, inner, bases))
        lines += [function(one, None, 4) for left in given.values() for one in left]
        fields = {one.target.id for one in self.class_types(node.name)
                  if isinstance(one, ast.AnnAssign)}
        lines += ["    " + ast.unparse(one) for one in self.class_types(node.name)
                  if not isinstance(one, ast.FunctionDef)
                  and not (isinstance(one, ast.Expr) and one.value.value is ...)]
        lines += [f"    {name}: Any" for name in attributes(node) if name not in done | fields]
        if node.name == "IPUConfig":
            lines += config_members()
        return "\n".join(lines if len(lines) > 1 else [lines[0], "    ..."])

    def class_types(self, name):
        nodes = self.types.get(name) or []
        return nodes[0].body if nodes and isinstance(nodes[0], ast.ClassDef) else []

    def base(self, node, module):
        """A base class as text, with what it needs imported; "" where nothing is known of it."""
        text = ast.unparse(node)
        head, _, rest = text.partition(".")
        if head in ("Enum", "enum", "IntEnum"):
            return "enum." + text.rpartition(".")[2]
        if head in ("Exception", "ValueError", "TypeError", "RuntimeError", "dict", "list"):
            return text
        if head == "tf":
            path = text.replace("tf.compat.v1.", "tf.")
            return path if path.startswith(("tf.distribute.Strategy", "tf.keras.layers.Layer",
                                            "tf.keras.optimizers.Optimizer")) else "Any"
        if head == "keras" and rest in ("layers.Layer", "Model"):
            return f"tf.keras.{rest}"
        if module.definition(head) is not None:
            if not rest and not head.startswith("_") and module is self.module:
                return text
            found = module.definition(head)
            if isinstance(found, ast.ClassDef) and module is self.module:
                self.define(head, module, found)
                return text
            return "Any"
        source, original = module.imports.get(head, (None, None))
        if source is None:
            return "Any"
        if rest and load(f"{source}.{original}") is not None:
            source, original = f"{source}.{original}", rest
        if source in self.first and "." not in original:
            self.imports.append(f"from {self.first[source]} import {original} as {original}")
            return original
        return "Any"


def flat_children():
    for inner in _finder.FLATTENED:
        yield from load(f"tremula.tf.ipu.{inner}").children


def names_of(node):
    """The names that a statement at the top of a module or class defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [one.id for one in node.targets if isinstance(one, ast.Name)]
    return []


def attributes(node):
    """The public attributes that a class's __init__ sets."""
    found = {}
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            for one in ast.walk(inner):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) \
                        and isinstance(one.value, ast.Name) and one.value.id == "self" \
                        and not one.attr.startswith("_"):
                    found[one.attr] = None
    return list(found)


def assignment(name, value, module):
    if isinstance(value, ast.Constant):
        return f"{name} = {value.value!r}" if not isinstance(value.value, type(None)) else \
            f"{name}: Any"
    if isinstance(value, ast.Name) and module.definition(value.id) is not None \
            and not value.id.startswith("_"):
        return f"{name} = {value.id}"
    return f"{name}: Any"


def member(name, node, bases):
    if any(one.startswith("enum.") for one in bases) and isinstance(node.value, ast.Constant):
        return f"{name} = {node.value.value!r}"
    if isinstance(node, ast.AnnAssign):
        return f"{name}: Any" + (" = ..." if node.value is not None else "")
    return f"{name}: Any"


def docstring(node, indent):
    text = ast.get_docstring(node).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    space = " " * indent
    lines = [space + line if line else "" for line in text.splitlines()]
    return f'{space}"""{lines[0].strip()}' + "".join("\n" + one for one in lines[1:]) + (
        f'\n{space}"""' if len(lines) > 1 or text.endswith('"') else '"""')


def decorated(node, indent, lines):
    """Puts the decorators that a checker must know before the last of `lines`."""
    for one in reversed(node.decorator_list):
        text = ast.unparse(one)
        name = text.partition("(")[0].rpartition(".")[2]
        if name in KEPT_DECORATORS:
            if name == "contextmanager":
                text = "contextlib.contextmanager"
            elif name == "dataclass":
                text = "dataclasses." + text.rpartition("dataclasses.")[2]
            lines.insert(0, " " * indent + "@" + text)
    return []


def function(node, given, indent):
    """A function: as scripts/stub_types.pyi gives it, else with the source's arguments."""
    text, space = "", " " * indent
    for one in given or [node]:
        lines = []
        arguments = ast.unparse(one.args) if given else ast.unparse(plain(one.args))
        if given and one.returns is not None:
            result = ast.unparse(one.returns)
        elif one.returns is not None:
            result = ast.unparse(one.returns)
        elif any(ast.unparse(two).endswith("contextmanager") for two in node.decorator_list):
            result = "Iterator[None]"
        else:
            result = "None" if one.name == "__init__" else "Any"
        lines.append(f"{space}def {one.name}({arguments}) -> {result}:")
        source = node if not given else ast.FunctionDef(
            decorator_list=[*one.decorator_list, *node.decorator_list])
        decorated(source, indent, lines)
        lines.append(docstring(node, indent + 4) if ast.get_docstring(node)
                     else f"{space}    ...")
        text += ("\n" if text else "") + "\n".join(lines)
    return text


def plain(arguments):
    """The arguments without annotations; a default that is no constant is "..."."""
    copied = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0].args
    for one in [*copied.posonlyargs, *copied.args, *copied.kwonlyargs,
                *filter(None, (copied.vararg, copied.kwarg))]:
        one.annotation = None

    def short(value):
        return value if value is None or isinstance(value, ast.Constant) else ast.Constant(...)
    copied.defaults = [short(one) for one in copied.defaults]
    copied.kw_defaults = [short(one) for one in copied.kw_defaults]
    return copied


def config_members():
    """The options of IPUConfig, from their table."""
    from tremula.tf.ipu import config_base, config_options
    lines = []

    def add(prefix, indent):
        space = " " * indent
        for option in config_options.OPTIONS:
            path, _, name = option.path.rpartition(".")
            if path != prefix or option.private:
                continue
            if option.type is None:
                inner = "".join(word.capitalize() for word in name.split("_"))
                lines.append(f'{space}class {inner}:\n{space}    """{option.doc}"""')
                add(option.path, indent + 4)
                lines.append(f"{space}{name}: {inner}")
            else:
                kind = config_base.full_type_text(option.type).replace("typing.", "")
                kind = kind.replace("tremula.tf.ipu.config_options.", "")
                lines.append(f"{space}{name}: {kind}")
                doc = f"{option.doc} {option.effect}".strip().replace('"', "'")
                lines.append(f'{space}"""{doc}"""')
    add("", 4)
    return lines


def read_types():
    """{place: {name: definitions}} of stub_types.pyi, where `# module PLACE` begins a part."""
    parts, place, lines = {}, None, []
    for line in [*TYPES.read_text(encoding="utf-8").splitlines(), "# module end"]:
        if line.startswith("# module "):
            if place is not None:
                table = parts.setdefault(place, {})
                for node in ast.parse("\n".join(lines)).body:
                    for name in imported_names(node) or names_of(node) or [ast.unparse(node)]:
                        table.setdefault(name, []).append(node)
            place, lines = line[len("# module "):], []
        else:
            lines.append(line)
    return parts


def imported_names(node):
    """The names that an import shows to other modules."""
    return [one.asname for one in node.names if one.asname] \
        if isinstance(node, ast.ImportFrom) else []


def shown(text):
    """The names that a stub shows."""
    names = []
    for node in ast.parse(text).body:
        names += imported_names(node) or names_of(node)
    return sorted({name for name in names if name and name != "__getattr__"})


def make():
    """{path of a stub: its text}."""
    first, others = places()
    types = read_types()
    files, texts = {}, {}
    for name, place in first.items():
        module = load(name)
        texts[name] = Writer(module, place, first, types).text()
        files[path_of(place, module.is_package)] = texts[name]
    for place, name in others.items():
        module = load(name)
        lines = [f"from {first[name]} import {one} as {one}" for one in shown(texts[name])
                 if one not in module.children]
        lines += [f"from {place} import {one} as {one}" for one in module.children]
        lines += ["from typing import Any", OPEN] if place == HOROVOD else []
        files[path_of(place, module.is_package)] = "\n".join(lines) + "\n"
    for place in types:
        if not {path_of(place, True), path_of(place, False)} & set(files):  # no module of ours
            part = "\n".join(ast.unparse(one) for nodes in types[place].values() for one in nodes)
            head = "" if "_typing" in place else "from typing import Any\n"
            is_package = "compat" in place
            files[path_of(place, is_package)] = head + part + "\n"
    files[path_of(f"{CONTRIB}.slim", False)] = f"from typing import Any\n{OPEN}"
    files[path_of("horovod", True)] = ("from typing import Any\n"
                                       f"from horovod import tensorflow as tensorflow\n{OPEN}")
    for package in ("keras-stubs", "tf_keras-stubs", "horovod-stubs"):
        files[f"{package}/py.typed"] = "partial\n"
    return files


def path_of(place, is_package):
    root, _, rest = place.partition(".")
    return f"{root}-stubs/" + rest.replace(".", "/") + ("/__init__.pyi" if is_package else ".pyi")


def main(folder):
    for path, text in make().items():
        target = pathlib.Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
