"""The rules of `tremula check`: each is a function that yields what it finds in a program.

A rule has an id, a level, a title, a reason, a remedy, and two programs: a bad one, in which it and
no other rule finds something, and a good one, in which no rule does. docs/check.md is made of
these. A rule that cannot know is silent.

    error     the program fails on an IPU, or at its door
    warning   the program runs, but not as it should: slowly, or with other numbers
    note      advice, such as a newer name; it leaves the exit code alone
"""

import ast
import dataclasses
import importlib
import textwrap
from typing import Any, Callable

LEVELS = ("error", "warning", "note")
# The modules in the order of the page.
_MODULES = ("syntax", "ops", "types", "variables", "shapes", "feeds", "keras", "python_code",
            "config", "settings", "older", "devices", "half", "running")


@dataclasses.dataclass(frozen=True)
class Rule:
    id: str
    level: str
    title: str
    why: str
    remedy: str
    bad: str
    good: str
    find: Callable
    needs_run: bool = False  # --run finds it


@dataclasses.dataclass(frozen=True)
class Edit:
    """Text for the place of some text: lines from 1, columns in characters from 0."""
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """line from 1, column from 1."""
    rule: Rule
    path: str
    line: int
    column: int
    message: str
    edit: Any = None


RULES = {}


def rule(id, level, title, why, remedy, bad, good, needs_run=False):
    """Makes a rule of find(project), which yields (file, node, message[, Edit])."""
    def add(find):
        texts = [" ".join(textwrap.dedent(one).split()) for one in (why, remedy)]
        programs = [textwrap.dedent(one).strip("\n") + "\n" for one in (bad, good)]
        RULES[id] = Rule(id, level, title, *texts, *programs, find, needs_run)
        return find
    return add


def load():
    """All rules by id, in the order of the page, whatever module was imported first."""
    modules = [importlib.import_module(f"{__name__}.{name}").__name__ for name in _MODULES]
    return dict(sorted(RULES.items(), key=lambda item: modules.index(item[1].find.__module__)))


# ---- Edits ----

def column(file, line, offset):
    """The column in characters of an offset in bytes, as `ast` counts them."""
    text = file.lines[line - 1]
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def replace(file, node, text):
    """An edit of a whole node."""
    return Edit(file.path, node.lineno, column(file, node.lineno, node.col_offset), node.end_lineno,
                column(file, node.end_lineno, node.end_col_offset), text)


def add_argument(file, call, text):
    """An edit that gives a call another argument, behind the last."""
    last = max([*call.args, *[one.value for one in call.keywords]], default=None,
               key=lambda node: (node.end_lineno, node.end_col_offset))
    if last is None or isinstance(last, ast.GeneratorExp):
        return None
    line, end = last.end_lineno, column(file, last.end_lineno, last.end_col_offset)
    if (line, end + 1) != (call.end_lineno, column(file, call.end_lineno, call.end_col_offset)):
        return None  # something stands behind the last argument: brackets, a comma, a comment
    return Edit(file.path, line, end, line, end, ", " + text)


def remove_argument(file, call, name, also=()):
    """An edit that takes a named argument out of a call, with those of `also` beside it; None where
    brackets or comments stand around it."""
    given = sorted([*call.args, *call.keywords], key=lambda one: (one.lineno, one.col_offset))
    first = next((at for at, one in enumerate(given) if getattr(one, "arg", None) == name), None)
    if first is None:
        return None
    last = first
    while first and getattr(given[first - 1], "arg", None) in also:
        first -= 1
    while last + 1 < len(given) and getattr(given[last + 1], "arg", None) in also:
        last += 1
    starts = [(one.lineno, column(file, one.lineno, one.col_offset)) for one in given]
    ends = [(one.end_lineno, column(file, one.end_lineno, one.end_col_offset)) for one in given]
    starts.append((call.end_lineno, column(file, call.end_lineno, call.end_col_offset) - 1))
    if any(_text(file, ends[at], starts[at + 1]).strip() != ("," if at + 1 < len(given) else "")
           for at in range(max(first - 1, 0), last + 1)):
        return None
    if first:
        return Edit(file.path, *ends[first - 1], *ends[last], "")
    return Edit(file.path, *starts[0], *(ends[last] if last + 1 == len(given)
                                         else starts[last + 1]), "")


def _text(file, first, last):
    """What stands between two places (line, column)."""
    lines = file.lines[first[0] - 1:last[0]]
    lines[-1] = lines[-1][:last[1]]
    lines[0] = lines[0][first[1]:]
    return "\n".join(lines)


def rename_keyword(file, call, old, new):
    """An edit of the name of an argument."""
    for one in call.keywords:
        if one.arg == old:
            start = column(file, one.lineno, one.col_offset)
            return Edit(file.path, one.lineno, start, one.lineno, start + len(old), new)
    return None


def rename_attribute(file, node, new):
    """An edit of the last word of a dotted name."""
    end = column(file, node.end_lineno, node.end_col_offset)
    return Edit(file.path, node.end_lineno, end - len(node.attr), node.end_lineno, end, new)
