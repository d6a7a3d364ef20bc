"""The folders of src/ are in layers: each includes only itself and those before it. So are those of
python/tremula/tf: the API is over the runtime."""
import ast
import functools
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import house  # noqa: E402

# The order is that of CONTRIBUTING.md, "The layers", and of src/CMakeLists.txt.
LAYERS = ["base", "timeline", "group", "hlo",
          "host/accelerator", "host/ops", "passes", "host/passes", "host/schedule",
          "ipu/target", "ipu/tile", "ipu/plan", "ipu/costs", "ipu/passes", "ipu/program",
          "compile", "host/exec", "poplar", "device", "report"]
TOWERS = "host", "ipu"
# Made by protobuf-c while building, with the folder that the proto lies in.
GENERATED = {"hlo.pb-c.h": "hlo", "node.pb-c.h": "tf", "trace.pb-c.h": "tf"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".h", ".def"))


def layer_at(place):
    """The layer of a path below src/."""
    parts = place.split("/")
    return "/".join(parts[:2 if parts[0] in TOWERS else 1])


def layer_of(path, included):
    """The layer of a quoted include; None for the public headers."""
    first = included.split("/")[0]
    if first == "tremula":
        return None
    if included in GENERATED:
        return GENERATED[included]
    if "/" not in included or first.startswith("."):  # beside the file
        return layer_at(path.relative_to(ROOT / "src").as_posix())
    layer = layer_at(included)
    assert layer in LAYERS, f'{path.relative_to(ROOT)}: "{included}" is in no folder of src/'
    return layer


@pytest.mark.parametrize("layer", LAYERS)
def test_includes_only_lower_layers(layer):
    wrong = []
    for path in sources(ROOT / "src" / layer):
        for included in INCLUDE.findall(path.read_text()):
            of = layer_of(path, included)
            if of is not None and LAYERS.index(of) > LAYERS.index(layer):
                wrong.append(f'{path.relative_to(ROOT)} includes "{included}"')
    assert not wrong, "\n".join(wrong)


def test_no_include_crosses_between_the_towers():
    wrong, count = [], 0
    for tower, other in (TOWERS, TOWERS[::-1]):
        for path in sources(ROOT / "src" / tower):
            count += 1
            wrong += [f'{path.relative_to(ROOT)} includes "{included}": what both towers need '
                      "stands below or above both"
                      for included in INCLUDE.findall(path.read_text())
                      if included.startswith(f"{other}/")]
    assert count > 300 and not wrong, "\n".join(wrong)


# Files of a folder that call each other because what they walk contains itself.
RECURSIONS = {
    "src/ipu/program": {"control.c", "walk.c"},  # a loop's body has loops
    "src/host/schedule": {"schedule_build.c", "schedule_control.c"},  # the same
    "src/host/ops/generate": {"generator.c", "narrow.c"},  # a node is made of narrower nodes
}


def test_files_call_each_other_in_no_circle():
    found = house.call_circles(ROOT)
    wrong = {folder: names for folder, names in found.items()
             if not names <= RECURSIONS.get(folder, set())}
    assert not wrong, "give what they share a file of its own"
    assert found["src/ipu/program"] == RECURSIONS["src/ipu/program"]


def test_the_parts_of_a_draft_have_owners():
    folder = ROOT / "src/ipu/program"
    text = (folder / "draft.h").read_text()
    owners = {part: re.findall(r"\w+\.c", files) for files, part in re.findall(
        r"/\* ([\w. ]+): [^/]*\*/\ntypedef struct trm_draft_(\w+) {", text)}
    wrong = [f"{path.name} grows draft.{part}: {' and '.join(owners.get(part, ['nobody']))} does"
             for path in sorted(folder.glob("*.c"))
             for part in re.findall(r"VECTOR_PUSH\(&draft->(\w+)", path.read_text())
             if path.name not in owners.get(part, [])]
    assert len(owners) == 9 and not wrong, "\n".join(wrong)


def test_every_folder_is_a_layer():
    folders = {layer_at(path.relative_to(ROOT / "src").as_posix())
               for path in sources(ROOT / "src")} - {"tf"}
    assert folders == set(LAYERS), "give a new folder its place in LAYERS and the design"


# What code outside of the core includes beside the public headers and its own.
OUTSIDE = {"src/tf": ("base/",), "tools": (), "examples": ()}


@pytest.mark.parametrize("folder", OUTSIDE)
def test_outside_uses_the_public_headers(folder):
    wrong = []
    allowed = ("tremula/", "tensorflow/", *OUTSIDE[folder])
    for path in sources(ROOT / folder):
        own = {header.name for kind in ("*.h", "*.def") for header in path.parent.glob(kind)}
        own |= {header for header, of in GENERATED.items() if of == path.parent.name}
        for included in INCLUDE.findall(path.read_text()):
            # TensorFlow's own headers are quoted in its style.
            if not included.startswith(allowed) and included not in own:
                wrong.append(f'{path.relative_to(ROOT)} includes "{included}"')
    assert not wrong, "\n".join(wrong)


def test_the_plugin_and_the_tools_alone_inspect():
    """tremula/inspect.h is for those of the same build; two files of the core implement it."""
    users = {str(path.relative_to(ROOT)) for folder in ("src", "tools", "examples")
             for path in sources(ROOT / folder) if '"tremula/inspect.h"' in path.read_text()}
    others = {path for path in users if not path.startswith(("src/tf/", "tools/"))}
    assert others == {"src/compile/inspect.c", "src/hlo/trivial.c"}


@functools.cache
def imported_modules(path):
    """What a Python file imports, at its head, in a function or by import_module("..."): absolute
    names."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(
                node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            names += [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: a relative import"
            names += [f"{node.module}.{one.name}" for one in node.names]
    return names


def test_the_runtime_imports_nothing_of_the_api():
    folder = ROOT / "python/tremula/tf/runtime"
    api = ("tremula.tf.ipu", "tremula.tf.plugin", "tremula.tf.graph_mode", "tremula.tf1",
           "tensorflow.python.ipu")
    wrong, count = [], 0
    for path in sorted(folder.rglob("*.py")):
        for name in imported_modules(path):
            count += 1
            if any(name == one or name.startswith(one + ".") for one in api):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert count > 100 and not wrong, "\n".join(wrong)


# The order is that of python/tremula/tf/runtime/__init__.py.
RUNTIME_LAYERS = ["base", "device", "nodes", "ops", "host", "tracing", "lowering", "sessions",
                  "launching", "clusters", "placing"]


@pytest.mark.parametrize("layer", RUNTIME_LAYERS)
def test_the_runtime_imports_only_lower_layers(layer):
    folder = ROOT / "python/tremula/tf/runtime"
    wrong, files = [], sorted((folder / layer).glob("*.py"))
    for path in files:
        for name in imported_modules(path):
            parts = name.split(".")
            if parts[:3] == ["tremula", "tf", "runtime"]:
                of = parts[3] if len(parts) > 3 else ""
                if of not in RUNTIME_LAYERS[:RUNTIME_LAYERS.index(layer) + 1]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert len(files) > 1 and not wrong, "\n".join(wrong)


def test_every_folder_of_the_runtime_is_a_layer():
    folder = ROOT / "python/tremula/tf/runtime"
    assert {path.parent.name for path in folder.glob("*/*.py")} == set(RUNTIME_LAYERS)
    assert [path.name for path in folder.glob("*.py")] == ["__init__.py"]


# ---- Python ----

PYTHON = ROOT / "python"
INNER = PYTHON / "tremula/tf/inner"
# TensorFlow's packages that are no public API.
PRIVATE = re.compile(r"tensorflow\.(python|core|compiler|lite|tools|_api)(\.|$)")
# What Tremula itself puts there.
OURS = re.compile(r"tensorflow\.(python\.ipu|compiler\.plugin|compiler\.tests)(\.|$)")


def product_files():
    return sorted(path for path in PYTHON.rglob("*.py"))


@functools.cache
def private_names(path):
    """The names of TensorFlow's private modules that a file imports, by a statement or by a call of
    import_module()."""
    names = list(imported_modules(path))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            first = node.args[0]
            first = first.values[0] if isinstance(first, ast.JoinedStr) else first
            names.append(first.value if isinstance(first, ast.Constant) else "")
    # `from tensorflow.python import ipu` gives tensorflow.python.ipu.
    return [name for name in names if PRIVATE.match(name) and not OURS.match(name)]


def test_one_package_imports_private_modules_of_tensorflow():
    inside = [path for path in product_files() if INNER in path.parents and private_names(path)]
    wrong = [f"{path.relative_to(ROOT)} imports {name}: move that into {INNER.relative_to(ROOT)}"
             for path in product_files() if INNER not in path.parents
             for name in private_names(path)]
    assert len(inside) > 10 and not wrong, "\n".join(wrong)


def tensorflow_names(tree):
    """The names in a file that are TensorFlow, its modules or what is imported from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.asname or one.name.partition(".")[0] for one in node.names
                        if one.name.partition(".")[0] == "tensorflow")
        elif isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "tensorflow" \
                and not OURS.match(node.module + "."):
            yield from (one.asname or one.name for one in node.names)


def root_of(node):
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def changes(tree, names):
    """The lines on which a file sets an attribute of something that one of `names` leads to, or
    of a name that it has given to that."""
    names = set(names)
    for node in ast.walk(tree):  # base = tf.Session
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)) \
                and root_of(node.value) in names:
            names.update(one.id for one in node.targets if isinstance(one, ast.Name))
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else \
            [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        flat = [leaf for target in targets for leaf in (
            target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            flat.append(ast.Attribute(node.args[0]))
        if any(isinstance(one, ast.Attribute) and root_of(one) in names for one in flat):
            yield node.lineno


def test_one_folder_changes_tensorflow():
    wrong, inside = [], 0
    for path in product_files():
        tree = ast.parse(path.read_text())
        lines = list(changes(tree, tensorflow_names(tree)))
        if path.parent == INNER / "patches":
            inside += len(lines)
        else:
            wrong += [f"{path.relative_to(ROOT)}:{line} changes TensorFlow: move that into "
                      "inner/patches" for line in lines]
    assert inside > 5 and not wrong, "\n".join(wrong)


def test_changes_are_found():
    tree = ast.parse("import tensorflow as tf\nbase = tf.Session\nbase.run = 1\n"
                     "setattr(tf.nn, 'x', 1)\nown = tf.Session()\nown.x = 1\n")
    assert list(changes(tree, tensorflow_names(tree))) == [3, 4]


def modules():
    """{name: file} of the modules of python/tremula."""
    found = {}
    for path in (PYTHON / "tremula").rglob("*.py"):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph():
    """{module: the modules that it imports, at its head or in a function}."""
    known = modules()
    own_names = {"tensorflow.python.ipu": "tremula.tf.ipu",
                 "tensorflow.compiler.plugin": "tremula.tf.plugin"}
    graph = {}
    for module, path in known.items():
        graph[module] = set()
        for name in imported_modules(path):
            for alias, own in own_names.items():
                name = own + name[len(alias):] if (name + ".").startswith(alias + ".") else name
            while name and name not in known:  # a function of a module, or of another package
                name = name.rpartition(".")[0]
            graph[module] |= {name} & known.keys() - {module}
    return graph


def in_circles(graph):
    """The nodes that lead to themselves, sorted."""
    found = []
    for start in sorted(graph):
        seen, waiting = set(), list(graph[start])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph[one]
        found += [start] if start in seen else []
    return found


def test_imports_by_a_call_are_found(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import os.path\nimportlib.import_module('a.b')\nimport_module('c')\n"
                    "importlib.import_module(name)\n")
    assert sorted(imported_modules(path)) == ["a.b", "c", "os.path"]



def test_python_modules_import_each_other_in_no_circle():
    graph = import_graph()
    assert sum(map(len, graph.values())) > 300
    assert in_circles(graph) == [], "end it by registration: plugin.on_load()"
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


def test_the_door_to_tensorflow_imports_nothing_of_tremula():
    wrong = [f"{module} imports {name}" for module, names in import_graph().items()
             if module.startswith("tremula.tf.inner.") for name in names
             if not name.startswith("tremula.tf.inner")]
    assert not wrong, "\n".join(wrong)


def test_the_product_does_without_what_is_for_tests():
    doors = {"tremula.tf.ipu.test_utils", "tremula.tf.ipu.test_case_extensions"}
    using = {module for module, names in import_graph().items()
             if not module.startswith("tremula.tf.testing")
             and any(name.startswith("tremula.tf.testing") for name in names)}
    assert using == doors
    through = {module for module, names in import_graph().items() if names & doors}
    assert through == {"tremula.tf.plugin.poplar.tests.test_utils"}


def test_files_of_tests_have_names_of_their_own():
    """pytest imports each by its name alone: a second file of the same name is not collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in sorted(set(names)) if names.count(name) > 1] == []
