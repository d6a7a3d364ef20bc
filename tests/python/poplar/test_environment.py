"""enable.sh, `tremula poplar --env`, and projects that are built with them."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import table
from tremula import core
from tremula.poplar import environment, paths

PROJECT = pathlib.Path(__file__).parent / "project"
ROOT = PROJECT.parents[3]
VARIABLES = ["PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CMAKE_PREFIX_PATH",
             "POPLAR_SDK_ENABLED", "TREMULA_LIBRARY_DIR"]
PLAIN = """
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
int main() {
  poplar::Graph graph(poplar::IPUModel().createDevice());
  graph.addCodelets("scale.gp");
  graph.addVertex(graph.addComputeSet("set"), "Scale");
}
"""


def _builds_are_found():
    """Whether the libraries are where Tremula looks by itself."""
    tree = paths.FOLDER.parents[2] / "build/release/lib"
    return any((one / "libtremula.so.0").exists() for one in (tree, paths.FOLDER.parent / "lib"))


def shell(command, folder, **variables):
    """Runs a command of bash, with enable.sh sourced before it."""
    done = subprocess.run(
        ["bash", "-euc", f"source '{paths.FOLDER}/enable.sh'\n{command}"], cwd=folder, text=True,
        capture_output=True, env={**os.environ, "TREMULA_PYTHON": sys.executable, **variables,
                                  "TREMULA_CODELET_CACHE": str(folder / "cache")})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_both_ways_set_the_same(tmp_path, capsys):
    show = "; ".join(f'printf "%s\\n" "${{{one}:-}}"' for one in VARIABLES)
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES[1:]}
    if not _builds_are_found():
        clean["TREMULA_LIBRARY_DIR"] = os.environ["TREMULA_LIBRARY_DIR"]
    printed = subprocess.run([sys.executable, "-m", "tremula.poplar.environment", "--env"],
                             env=clean, text=True, capture_output=True, check=True).stdout
    by_text = subprocess.run(["bash", "-euc", printed + show], env=clean, text=True,
                             capture_output=True, check=True).stdout
    by_file = subprocess.run(["bash", "-euc", f"source '{paths.FOLDER}/enable.sh'; {show}"],
                             env=clean, text=True, capture_output=True, check=True).stdout
    inside = paths.FOLDER in paths.libraries().parents  # where the package is installed
    assert by_text == by_file and by_text.count(str(paths.FOLDER)) == 4 + inside
    assert str(paths.libraries()) in by_text and (paths.libraries() / "libpoplar.a").is_file()
    environment.main(["--prefix"])
    assert capsys.readouterr().out.strip() == str(paths.FOLDER)


def test_the_python_of_a_wheel_for_any_system(tmp_path):
    """auditwheel moves the program into site-packages: it finds the environment's Python there."""
    program = tmp_path / "lib/python3.9/site-packages/tremula.scripts/tremula"
    program.parent.mkdir(parents=True)
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    built = [pathlib.Path(os.environ.get("TREMULA_BIN_DIR") or "."), ROOT / "build/release/bin",
             pathlib.Path(sys.executable).parent]
    shutil.copy(next(one / "tremula" for one in built if (one / "tremula").is_file()), program)
    clean = {name: value for name, value in os.environ.items() if name != "TREMULA_PYTHON"}
    clean["LD_LIBRARY_PATH"] = os.path.dirname(core.library_path())
    printed = subprocess.run([program, "poplar", "--prefix"], text=True, capture_output=True,
                             check=True, env=clean)
    assert printed.stdout.split() == ["-m", "tremula.poplar.environment", "--prefix"]


def test_a_plain_program_after_enable_alone(tmp_path):
    (tmp_path / "plain.cpp").write_text(PLAIN)
    forget = "unset TREMULA_LIBRARY_DIR" if _builds_are_found() else ":"
    subprocess.run(["bash", "-euc", f"{forget}; source '{paths.FOLDER}/enable.sh'; "
                    f"popc '{PROJECT}/scale_codelet.cpp' -o scale.gp\n"
                    "g++ plain.cpp -o plain -lpoplar && ./plain"], cwd=tmp_path, check=True,
                   env={**os.environ, "TREMULA_PYTHON": sys.executable,
                        "TREMULA_CODELET_CACHE": str(tmp_path / "cache")})


def test_the_lines_of_a_makefile(tmp_path):
    shell(f"g++ -std=c++11 -Wall -Wextra -Werror '{PROJECT}/scale.cpp' -shared -fpic -o "
          "libscale.so -lpoplar -lpoputil -lpopops -lpoplin -lpopnn -lpopsparse -lgcl -lpoprand\n"
          f"popc -O3 '{PROJECT}/scale_codelet.cpp' -o scale.gp", tmp_path)
    assert "Scale" in table.load(tmp_path / "scale.gp")[0]
    needed = subprocess.run(["readelf", "-d", str(tmp_path / "libscale.so")], text=True,
                            capture_output=True, check=True).stdout
    assert "libstdc++" in needed and "poplar" not in needed


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_cmake_project(tmp_path):
    shell(f"cmake -S '{PROJECT}' -B . >/dev/null && cmake --build . >/dev/null", tmp_path)
    assert "Scale" in table.load(tmp_path / "scale.gp")[0]
    assert (tmp_path / "libscale.so").exists()
