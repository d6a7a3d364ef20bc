"""Every header compiles alone: the public ones as C and as C++, the inner ones as C."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = sorted((ROOT / "include" / "tremula").glob("*.h"))
# src/tf needs TensorFlow's headers and is compiled as a whole.
INNER = sorted(path for path in (ROOT / "src").rglob("*.h") if "tf" not in path.parts[-2:-1]
               and not path.name.endswith(".inc.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]


def compile_alone(header, tmp_path, suffix, *options):
    unit = tmp_path / f"unit{suffix}"
    # Twice, which shows a missing guard.
    unit.write_text(f'#include "{header}"\n#include "{header}"\n')
    result = subprocess.run(
        ["gcc", *options, *WARNINGS, "-fsyntax-only", f"-I{ROOT}/include", f"-I{ROOT}/src", unit],
        capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", PUBLIC, ids=lambda path: path.name)
def test_public_header_as_c(header, tmp_path):
    compile_alone(header, tmp_path, ".c", "-std=c11", "-pedantic", "-Wstrict-prototypes")


@pytest.mark.parametrize("header", PUBLIC, ids=lambda path: path.name)
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_public_header_as_cpp(header, tmp_path):
    compile_alone(header, tmp_path, ".cc", "-std=c++11", "-pedantic")


@pytest.mark.parametrize("header", INNER, ids=lambda path: "/".join(path.parts[-2:]))
def test_inner_header_as_c(header, tmp_path):
    text = header.read_text()
    if any(name in text for name in ("pb-c.h", "hlo/proto.h", "dnnl.h", "onednn_steps.h",
                                     "convolution_draft.h")):
        pytest.skip("needs headers that are generated or in the Python environment")
    compile_alone(header, tmp_path, ".c", "-std=gnu11", "-fopenmp",
                  "-Wno-unused-function")
