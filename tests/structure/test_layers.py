"""The folders of src/ are in layers: each includes only itself and those before it. So are those of
python/tremula/tf: the API is over the runtime."""
import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The order is that of CONTRIBUTING.md, "The layers", and of src/CMakeLists.txt.
LAYERS = ["base", "hlo", "target", "tile", "ops", "passes", "program", "exec", "device", "report"]
# Made by protobuf-c while building, with the folder that the proto lies in.
GENERATED = {"hlo.pb-c.h": "hlo", "node.pb-c.h": "tf", "trace.pb-c.h": "tf"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".c", ".h", ".def"))


def layer_of(path, included):
    """The layer of a quoted include; None for the public headers."""
    first = included.split("/")[0]
    if first == "tremula":
        return None
    if included in GENERATED:
        return GENERATED[included]
    if "/" not in included or first.startswith("."):  # beside the file
        return path.relative_to(ROOT / "src").parts[0]
    assert first in LAYERS, f'{path.relative_to(ROOT)}: "{included}" is in no folder of src/'
    return first


@pytest.mark.parametrize("layer", LAYERS)
def test_includes_only_lower_layers(layer):
    wrong = []
    for path in sources(ROOT / "src" / layer):
        for included in INCLUDE.findall(path.read_text()):
            of = layer_of(path, included)
            if of is not None and LAYERS.index(of) > LAYERS.index(layer):
                wrong.append(f'{path.relative_to(ROOT)} includes "{included}"')
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_layer():
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} - {"tf"}
    assert folders <= set(LAYERS), "give the new folder its place in LAYERS and the design"
    assert any(sources(ROOT / "src" / layer) for layer in LAYERS)


# What code outside of the core includes beside the public headers and its own.
OUTSIDE = {"src/tf": ("base/",), "tools": (), "examples": ()}


@pytest.mark.parametrize("folder", OUTSIDE)
def test_outside_uses_the_public_headers(folder):
    wrong = []
    allowed = ("tremula/", "tensorflow/", *OUTSIDE[folder])
    for path in sources(ROOT / folder):
        own = {header.name for header in path.parent.glob("*.h")}
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
    assert others == {"src/exec/inspect.c", "src/hlo/trivial.c"}


def imported_modules(path):
    """What a Python file imports, at its head or in a function: absolute names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: a relative import"
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_the_runtime_imports_nothing_of_the_api():
    folder = ROOT / "python/tremula/tf/runtime"
    api = ("tremula.tf.ipu", "tremula.tf.plugin", "tremula.tf.graph_mode", "tremula.tf1",
           "tensorflow.python.ipu")
    wrong, count = [], 0
    for path in sorted(folder.glob("*.py")):
        for name in imported_modules(path):
            count += 1
            if any(name == one or name.startswith(one + ".") for one in api):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert count > 100 and not wrong, "\n".join(wrong)
