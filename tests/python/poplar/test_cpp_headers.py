"""The C++ headers compile without a warning as every C++ from 11 on, and emit the trampolines."""
import pathlib
import shutil
import subprocess

import pytest
from tremula.poplar import paths

SOURCES = pathlib.Path(__file__).parent / "sources"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
HEADERS = sorted(path.relative_to(paths.INCLUDE).as_posix() for path in paths.INCLUDE.rglob("*")
                 if path.is_file() and path.relative_to(paths.INCLUDE).parts[0] != "tremula")
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]


def compile_all(tmp_path, order, compiler, *flags):
    """Compiles a file with all headers and all calls."""
    source = tmp_path / "all.cpp"
    source.write_text("".join(f"#include <{one}>\n" for one in order)
                      + (SOURCES / "calls.cpp").read_text())
    # Operators are C functions that return classes, by the original's interface.
    own = ["-Wno-return-type-c-linkage"] if compiler == "clang++" else []
    # -I and not -isystem: warnings in the headers count.
    done = subprocess.run([compiler, *flags, *WARNINGS, *own, f"-I{paths.INCLUDE}",
                           f"-I{paths.table_headers()}", str(source)], capture_output=True,
                          text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr[:4000]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("standard", [11, 14, 17, 20])
def test_headers_are_clean(tmp_path, standard, compiler):
    assert len(HEADERS) > 40 and "ipu_vector_math" in HEADERS
    # Every header includes what it needs: it comes before and after all others.
    order = HEADERS if standard in (11, 17) else HEADERS[::-1]
    compile_all(tmp_path, order, compiler, f"-std=c++{standard}", "-fsyntax-only")


def test_every_library_has_the_trampolines(tmp_path):
    library = tmp_path / "all.so"
    # Two objects with the same weak functions.
    (tmp_path / "other.cpp").write_text("#include <poplar/Graph.hpp>\n")
    compile_all(tmp_path, HEADERS, "g++", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-o",
                str(library), str(tmp_path / "other.cpp"))
    names = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True,
                           text=True, check=True).stdout.split()
    assert {name for name in names if name.startswith("trm_")} == {
        "trm_poplar_header", "trm_poplar_build", "trm_poplar_grad", "trm_poplar_metadata",
        "trm_poplar_allocator"}
