#!/usr/bin/env python3
"""How long `tremula check` takes for 5 000 lines, as a process with its start.

    python bench/check.py [--lines N]

The program is made of the examples and the test programs, copied under new names into one folder
and imported by one script. Prints the least and the median of seven runs.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
_RUNS = 7


def make(folder, lines):
    """A script and its modules of at least so many lines; returns the script and the number."""
    sources = [path for name in ("examples", "tests/data/check")
               for path in sorted((ROOT / name).glob("*.py"))]
    count, imports = 0, []
    while count < lines:
        text = sources[len(imports) % len(sources)].read_text()
        name = f"part{len(imports)}"
        (folder / f"{name}.py").write_text(text)
        imports.append(f"import {name}\n")
        count += text.count("\n") + 1
    (folder / "main.py").write_text("".join(imports))
    return folder / "main.py", count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=5000)
    arguments = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with tempfile.TemporaryDirectory() as folder:
        script, lines = make(pathlib.Path(folder), arguments.lines)
        command = [sys.executable, "-m", "tremula.tool.check", str(script)]
        seconds = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            ran = subprocess.run(command, env=environment, capture_output=True, check=False)
            seconds.append(time.perf_counter() - start)
            assert ran.returncode == 3 and not ran.stderr, ran.stderr  # it has findings
    print(f"tremula check, {lines} lines: {min(seconds):.2f} s at best, "
          f"{statistics.median(seconds):.2f} s in the median of {_RUNS}")


if __name__ == "__main__":
    main()
