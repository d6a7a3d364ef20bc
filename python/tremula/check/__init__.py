"""`tremula check`: what keeps a program from running on an IPU, found by reading it.

    report = check.check(["train.py"])        # nothing is imported or run; no TensorFlow
    for one in report.findings:
        print(one.path, one.line, one.rule.id, one.message)

    names      a file: its scopes, and what its names mean
    texts      texts that a program puts together, and environment variables
    project    the files of a program, and which functions are for an IPU
    rules      what is looked for; docs/check.md is made of it
    questions  the five lines at the end
    output     text, JSON, SARIF, a diff
    models     the same questions of a saved model (this one needs TensorFlow)
    page       docs/check.md
"""

import re
from typing import Any, NamedTuple

from tremula.check import project, questions, rules

_IGNORE = re.compile(r"#\s*tremula:\s*ignore\[([\w\s,-]+)\]")


class Report(NamedTuple):
    """findings: in the order of files and lines; answers: five texts; files: paths that were
    read; lines: how many."""
    findings: list
    answers: list
    files: list
    lines: int

    @property
    def failed(self):
        """Whether something is more than a note."""
        return any(one.rule.level != "note" for one in self.findings)


def check(paths, only=None):
    """A Report on the program whose scripts `paths` are, with the files of its own that they
    import. only: the ids of rules, instead of all."""
    program = project.Project(paths)
    findings = []
    for one in rules.load().values():
        if only is None or one.id in only:
            findings += _findings(one, program)
    findings = sorted(set(findings), key=lambda one: (
        one.path, one.line, one.column, one.rule.id))
    return Report(findings, questions.answers(program, findings),
                  [file.path for file in program.files]
                  + [one.path for one in program.unreadable],
                  sum(len(file.lines) for file in program.files))


def _findings(rule, program):
    for file, node, message, *rest in rule.find(program):
        if isinstance(node, project.Unreadable):
            yield rules.Finding(rule, node.path, node.line, node.column + 1, message)
            continue
        line = node.lineno
        start = node.col_offset
        if hasattr(node, "attr"):  # the last word of a dotted name, which may be lines below
            line, start = node.end_lineno, node.end_col_offset - len(node.attr.encode())
        if rule.id in ignored(file, line) or rule.id in ignored(file, node.lineno):
            continue
        edit: Any = rest[0] if rest else None
        yield rules.Finding(rule, file.path, line, rules.column(file, line, start) + 1, message,
                            edit)


def ignored(file, line):
    """The rules that a line, or a comment alone in the line above it, turns off."""
    found = set()
    for number in (line, line - 1):
        text = file.lines[number - 1] if 0 < number <= len(file.lines) else ""
        if number == line or text.lstrip().startswith("#"):
            for match in _IGNORE.finditer(text):
                found.update(one.strip() for one in match[1].split(","))
    return found
