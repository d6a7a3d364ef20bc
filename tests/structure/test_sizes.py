"""C files have one subject and functions fit on a screen: their sizes have limits.

    python tests/structure/test_sizes.py     lists what is over 600 and 60 lines
"""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "src", "tools", "include"
CODE = ".c", ".inc.h"  # endings of files with functions
MOST_LINES = 700  # of a file; one of more than 600 wants a reason
MOST_OF_A_FUNCTION = 70  # of more than 60: a switch or a table
_NO_FUNCTION = re.compile(r"(typedef|struct|enum|union|extern)\b|#|[^(]*=|.*\) = \{$")


def _files():
    return sorted(file for folder in FOLDERS for ending in ("c", "h")
                  for file in (ROOT / folder).rglob(f"*.{ending}"))


def functions(text):
    """(name, first line, number of lines) of each function of a formatted C file."""
    lines, start, name = text.split("\n"), None, None
    for number, line in enumerate(lines):
        if start is None and line.endswith("{") and not _NO_FUNCTION.match(line):
            start = number
            while not line[:1].isalpha() and start > 0:  # a signature of several lines
                start -= 1
                line = lines[start]
            if _NO_FUNCTION.match(line):  # a table in a table
                start = None
                continue
            found = re.search(r"\bNAME\((\w+)\)", line) or re.search(r"(\w+)\(", line)
            name = found[1] if found else line
        elif start is not None and line.startswith("}"):
            yield name, start + 1, number - start + 1
            start = None


def _over(most_lines, most_of_a_function):
    for file in _files():
        text = file.read_text()
        place = file.relative_to(ROOT)
        if text.count("\n") > most_lines:
            yield f"{place}: {text.count(chr(10))} lines"
        for name, line, count in functions(text) if file.name.endswith(CODE) else ():
            if count > most_of_a_function:
                yield f"{place}:{line}: {name}: {count} lines"


def test_files_and_functions_are_small():
    assert list(_over(MOST_LINES, MOST_OF_A_FUNCTION)) == []


def test_tables_hold_no_functions():
    """Functions in a table would be neither formatted nor counted: they are an .inc.h file."""
    found = [f"{file.relative_to(ROOT)}: {name}" for folder in FOLDERS
             for file in sorted((ROOT / folder).rglob("*.def"))
             for name, *_ in functions(file.read_text())]
    assert found == []


@pytest.mark.parametrize("text, expected", [
    ("int f(void) {\n  return 1;\n}\n", [("f", 1, 3)]),
    ("/* f */\nstatic int g(int a,\n             int b) {\n  return a;\n}\n", [("g", 2, 4)]),
    ("INLINE void NAME(h)(int a) {\n  return;\n}\n", [("h", 1, 3)]),
    ("typedef struct s {\n  int a;\n} s;\nstatic const int t[] = {\n  1};\n", []),
    ("const int NAME(t) = {\n  .a =\n    {\n      1,\n    },\n};\n", []),
])
def test_functions_are_found(text, expected):
    assert list(functions(text)) == expected


if __name__ == "__main__":
    print("\n".join(_over(600, 60)))
