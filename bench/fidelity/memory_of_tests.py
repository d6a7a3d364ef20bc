"""Memory of programs like those of the original's tests, against the bytes that those assert.

    python bench/fidelity/memory_of_tests.py [--update FILE.md]

tests/data/compute_sets.json has the bytes of all tiles ("total"), of the fullest ("max") and of
what is always live, with the tolerance of the test; tests/python/report has the programs,
in named_programs.py and sized_programs.py.
Prints a table, or puts it between the marks of a document. Needs the TensorFlow plugin.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("TF_POPLAR_FLAGS", "--use_ipu_model")  # its tiles are those asked for

import tensorflow.compat.v1 as tf  # noqa: E402

from tool import replace_between  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARKS = "<!-- tests: begin -->\n", "<!-- tests: end -->"
WHAT = {"total": "all tiles", "max": "fullest tile", "always": "always live"}


def measure(report, what):
    """The bytes that the original's assertion of this kind compares."""
    memory = [tile.memory for tile in report.compilation.tiles]
    if what == "total":
        return sum(one.total.excludingGaps for one in memory)
    if what == "max":
        return max(one.total.excludingGaps for one in memory)
    return sum(one.alwaysLiveBytes for one in memory)


def table():
    """The table as text."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "python", "report"))
    import named_programs
    import sized_programs
    from program_parts import run
    with open(os.path.join(ROOT, "tests", "data", "compute_sets.json"), encoding="utf-8") as file:
        cases = [case for case in json.load(file) if case.keys() & WHAT.keys()]
    lines = ["| test | tiles | bytes of | its bytes | tolerance | ours | error |",
             "|---|---|---|---|---|---|---|"]
    for case in cases:
        with tf.Graph().as_default():
            name = case["program"]
            program = getattr(named_programs, name, None) or getattr(sized_programs, name)
            report = run(program, case.get("tiles", 0), case.get("code", False))
        for what in case.keys() & WHAT.keys():
            published, tolerance = case[what]
            ours = measure(report, what)
            error = 100 * (ours / published - 1)
            lines.append(f"| `{case['test']}` | {case.get('tiles', 1472)} | {WHAT[what]}"
                         f"{', with code' if case.get('code') else ''} | {published} | "
                         f"{100 * tolerance:.0f} % | {ours} | {error:+.0f} % |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="memory of the original's tests")
    parser.add_argument("--update", metavar="FILE.md")
    arguments = parser.parse_args()
    tf.disable_v2_behavior()
    text = table()
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
