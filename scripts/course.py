"""Runs the course: the cells of course/*.md, notebooks in MyST's Markdown.

    python scripts/course.py run [CHAPTER.md ...]     runs them; all of them where none is named
    python scripts/course.py outputs FOLDER           runs all, and keeps what cells show as JSON
    python scripts/course.py notebooks                writes course/*.ipynb beside them

Needs no Jupyter. A cell shows what it prints, and the value of its last line as a notebook does.
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import types

COURSE = pathlib.Path(__file__).resolve().parents[1] / "course"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.M | re.S)


def chapters():
    return sorted(COURSE.glob("[0-9][0-9]_*.md"))


def parts(source):
    """(is code, text, line of its first line) of a notebook, in order, without the front matter."""
    begin = source.index("\n---\n", 3) + 5
    for cell in CELL.finditer(source):
        yield False, source[begin:cell.start()], source.count("\n", 0, begin) + 1
        yield True, cell[1], source.count("\n", 0, cell.start(1)) + 1
        begin = cell.end()
    yield False, source[begin:], source.count("\n", 0, begin) + 1


def shown(value):
    """What a notebook shows of a value, as (type, text)."""
    for name, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        if hasattr(value, name):
            return kind, getattr(value, name)()
    return "text/plain", repr(value)


def run(path):
    """Runs a chapter in this process; returns the outputs of each cell."""
    os.chdir(COURSE)
    sys.path.insert(0, str(COURSE))
    names = types.ModuleType("__main__")
    sys.modules["__main__"] = names
    outputs = []
    for is_code, text, line in parts(path.read_text(encoding="utf-8")):
        if not is_code:
            continue
        tree = ast.increment_lineno(ast.parse(text, str(path)), line - 1)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed, found = io.StringIO(), []
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, str(path), "exec"), names.__dict__)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), str(path), "eval"),
                             names.__dict__)
                if value is not None:
                    found.append(shown(value))
        if printed.getvalue():
            found.insert(0, ("text/plain", printed.getvalue()))
        outputs.append(found)
    return outputs


def run_all(paths, folder=None):
    """Each in a process of its own; the exit status."""
    failed = 0
    for path in paths:
        begin = time.monotonic()
        keep = [str(folder / f"{path.stem}.json")] if folder else []
        status = subprocess.run([sys.executable, __file__, "one", str(path), *keep],
                                env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}, check=False)
        print(f"{path.stem}: {'FAILED' if status.returncode else 'passed'} "
              f"({time.monotonic() - begin:.0f} s)", flush=True)
        failed |= status.returncode != 0
    return failed


def notebook(path):
    """The notebook as .ipynb, without outputs."""
    cells = []
    for index, (is_code, text, _) in enumerate(parts(path.read_text(encoding="utf-8"))):
        if text.strip():
            cell = {"cell_type": "code" if is_code else "markdown", "id": f"{path.stem}-{index}",
                    "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}
            cells.append({**cell, "execution_count": None, "outputs": []} if is_code else cell)
    return {"nbformat": 4, "nbformat_minor": 5, "cells": cells, "metadata": {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}}


def main(command, *arguments):
    if command == "one":
        found = run(pathlib.Path(arguments[0]).resolve())
        for path in arguments[1:]:
            pathlib.Path(path).write_text(json.dumps(found), encoding="utf-8")
        return 0
    if command == "run":
        return run_all([pathlib.Path(one).resolve() for one in arguments] or chapters())
    if command == "outputs":
        folder = pathlib.Path(arguments[0]).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return run_all(chapters(), folder)
    for path in chapters():
        path.with_suffix(".ipynb").write_text(json.dumps(notebook(path), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or sys.exit(__doc__))))
