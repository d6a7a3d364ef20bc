"""Bytes and cycles of programs like those of the original's tests, against the tests' assertions.

    python bench/fidelity/numbers_of_tests.py [--update FILE.md] [PROGRAM ...]

tests/data/profile_numbers.json has the bytes of all tiles ("total"), of the fullest tile ("max"),
of data that is always live, the cycles of a run, and the tolerance of the test. named_programs.py,
sized_programs.py and recurrent_programs.py of tests/python/report have the programs. Prints a table
and how many numbers and programs are within the tolerance, or puts that between the marks of a
document. Needs the TensorFlow plugin.
"""

import argparse
import json
import os
import sys
import zlib

os.environ.setdefault("TF_POPLAR_FLAGS", "--use_ipu_model")  # its tiles are those asked for

import tensorflow.compat.v1 as tf  # noqa: E402

from tool import replace_between  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARKS = "<!-- tests: begin -->\n", "<!-- tests: end -->"
WHAT = {"total": "all tiles", "max": "fullest tile", "always": "always live", "cycles": "cycles"}
SETTINGS = ("tiles", "code", "initialize", "options")


def held_out(case):
    """Whether the parity of a test's CRC-32 is odd, as for the layers."""
    return zlib.crc32(case["test"].encode()) % 2 == 1


def measure(report, what):
    """The number that the original's assertion of this kind compares."""
    memory = [tile.memory for tile in report.compilation.tiles]
    if what == "total":
        return sum(one.total.excludingGaps for one in memory)
    if what == "max":
        return max(one.total.excludingGaps for one in memory)
    if what == "always":
        return sum(one.alwaysLiveBytes for one in memory)
    return report.execution.totalCycles.total


def cases_of(names):
    """The cases of the programs with these names; without names, all."""
    with open(os.path.join(ROOT, "tests", "data", "profile_numbers.json"),
              encoding="utf-8") as file:
        return [case for case in json.load(file) if not names or case["program"] in names]


def report_of(case):
    """The profile of a case's program; None where there is none."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "python", "report"))
    import named_programs
    import recurrent_programs
    import sized_programs
    from program_parts import run
    name = case["program"]
    program = next(getattr(module, name) for module in
                   (named_programs, sized_programs, recurrent_programs) if hasattr(module, name))
    with tf.Graph().as_default():
        try:
            return run(program, execution="cycles" in case,
                       **{key: case[key] for key in SETTINGS if key in case})
        except AssertionError:  # it compiled nothing
            return None


def table(names):
    """The table as text."""
    lines = ["| test | set | tiles | number | published | tolerance | ours | error | within |",
             "|---|---|---|---|---|---|---|---|---|"]
    counts = {}
    for case in cases_of(names):
        report, within_all = report_of(case), True
        kind = "held out" if held_out(case) else "causes"
        for what in (one for one in WHAT if one in case):
            published, tolerance = case[what]
            ours = 0 if report is None else measure(report, what)
            error = 100 * (ours / published - 1)
            within = int(published * (1 - tolerance)) <= ours <= int(published * (1 + tolerance))
            within_all = within_all and within
            code = ", with code" if case.get("code") and what != "cycles" else ""
            sdk = f" (SDK {case['sdk']})" if "sdk" in case else ""
            lines.append(f"| `{case['test']}`{sdk} | {kind} | {case.get('tiles', 1472)} | "
                         f"{WHAT[what]}{code} | {published} | {100 * tolerance:.0f} % | {ours} | "
                         f"{error:+.0f} % | {'yes' if within else 'no'} |")
            number = counts.setdefault("cycles" if what == "cycles" else "bytes", [0, 0])
            number[0] += within
            number[1] += 1
        number = counts.setdefault("programs", [0, 0])
        number[0] += within_all
        number[1] += 1
    return "\n".join(lines) + "\n\nWithin the tolerance: " + ", ".join(
        f"{within} of {total} {what}" for what, (within, total) in counts.items()) + ".\n"


def main():
    parser = argparse.ArgumentParser(description="bytes and cycles of the original's tests")
    parser.add_argument("--update", metavar="FILE.md")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    tf.disable_v2_behavior()
    text = table(arguments.programs)
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
