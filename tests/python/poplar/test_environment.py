"""enable.sh, `tremula poplar --env`, and projects that are built with them."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import table
from tremula.poplar import environment, paths

PROJECT = pathlib.Path(__file__).parent / "project"
VARIABLES = ["PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CMAKE_PREFIX_PATH",
             "POPLAR_SDK_ENABLED"]


def shell(command, folder, **variables):
    """Runs a command of bash, with enable.sh sourced before it."""
    done = subprocess.run(
        ["bash", "-euc", f"source '{paths.FOLDER}/enable.sh'\n{command}"], cwd=folder, text=True,
        capture_output=True, env={**os.environ, "TREMULA_PYTHON": sys.executable, **variables,
                                  "TREMULA_CODELET_CACHE": str(folder / "cache")})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_both_ways_set_the_same(tmp_path, capsys):
    environment.main(["--env"])
    printed = capsys.readouterr().out
    show = "; ".join(f'printf "%s\\n" "${one}"' for one in VARIABLES)
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES[1:]}
    by_text = subprocess.run(["bash", "-euc", printed + show], env=clean, text=True,
                             capture_output=True, check=True).stdout
    by_file = subprocess.run(["bash", "-euc", f"source '{paths.FOLDER}/enable.sh'; {show}"],
                             env=clean, text=True, capture_output=True, check=True).stdout
    inside = paths.FOLDER in paths.libraries().parents  # where the package is installed
    assert by_text == by_file and by_text.count(str(paths.FOLDER)) == 4 + inside
    assert str(paths.libraries()) in by_text and (paths.libraries() / "libpoplar.a").is_file()
    environment.main(["--prefix"])
    assert capsys.readouterr().out.strip() == str(paths.FOLDER)


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
