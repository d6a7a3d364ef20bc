"""The listings of docs/custom_operators.md: they are compiled as the page says, and train."""
import os
import re
import subprocess
import sys

import built
import interpreter
from tremula import core
from tremula.poplar import environment, paths

PAGE = built.ROOT / "docs/custom_operators.md"


def test_the_listings(tmp_path, capsys):
    text = PAGE.read_text()
    listings = re.findall(r"\(`(\w+\.(?:cpp|py))`\):\n\n```\w+\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in listings] == ["swish_codelet.cpp", "swish.cpp", "train.py",
                                                 "plain.cpp"]
    for name, listing in listings:
        (tmp_path / name).write_text(listing)
    environment.main(["--env"])
    lines = [line.strip() for line in text.splitlines() if line.startswith(("    popc", "    g++"))]
    assert len(lines) == 3
    commands = "\n".join([capsys.readouterr().out, *lines])
    variables = {**os.environ, "TREMULA_PYTHON": sys.executable,
                 "TREMULA_CODELET_CACHE": str(tmp_path / "cache"),
                 "TREMULA_LIBRARY_DIR": os.path.dirname(core.library_path())}
    done = subprocess.run(["bash", "-euc", commands], cwd=tmp_path, env=variables, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == lines[-1].partition("prints ")[2] + "\n"
    done = interpreter.run([tmp_path / "train.py"], cwd=tmp_path, env={
        **variables, "TREMULA_RUNTIME_DIR": str(tmp_path),
        "PYTHONPATH": built.variables()["PYTHONPATH"]})
    assert done.returncode == 0, done.stderr[-3000:]
    first, last = map(float, re.search(r"loss ([\d.]+), then ([\d.]+)", done.stdout).groups())
    assert last < 0.7 * first


def test_the_table_names_headers_that_exist():
    rows = re.findall(r"^\| `(\w+/[\w.]*)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 11
    for where, names in rows:
        place = paths.INCLUDE / where
        files = place.glob("*.hpp") if place.is_dir() else [place]
        code = "\n".join(path.read_text() for path in files)
        for name in re.findall(r"`(\w+)`", names):
            if name not in ("InPlace", "WithOutput"):
                assert re.search(rf"\b{name}\b", code) or where == "poplar/Graph.hpp", (where, name)
