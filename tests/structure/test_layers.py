"""The folders of src/ are in layers: each includes only itself and those before it."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The order is that of the design (docs/design.md) and of src/CMakeLists.txt.
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


@pytest.mark.parametrize("folder", ["src/tf", "tools", "examples"])
def test_outside_uses_the_public_headers(folder):
    wrong = []
    for path in sources(ROOT / folder):
        own = {header.name for header in path.parent.glob("*.h")}
        own |= {header for header, of in GENERATED.items() if of == path.parent.name}
        for included in INCLUDE.findall(path.read_text()):
            # TensorFlow's own headers are quoted in its style.
            if not included.startswith(("tremula/", "tensorflow/")) and included not in own:
                wrong.append(f'{path.relative_to(ROOT)} includes "{included}"')
    assert not wrong, "\n".join(wrong)
