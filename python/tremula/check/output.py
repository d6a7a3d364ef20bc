"""A report as text, as JSON, as SARIF 2.1.0, and its mechanical changes as a diff."""

import difflib
import json
import pathlib

_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_PAGE = "docs/check.md"


def text(report):
    """Lines for people: each finding with its remedy once, then the five answers."""
    lines, told = [], set()
    for one in report.findings:
        lines.append(f"{one.path}:{one.line}:{one.column}: {one.rule.level}: {one.message} "
                     f"[{one.rule.id}]")
        if one.rule.id not in told:
            told.add(one.rule.id)
            lines.append(f"    {one.rule.remedy}")
    counts = [f"{count} {level}{'s' * (count != 1)}" for level in ("error", "warning", "note")
              if (count := sum(one.rule.level == level for one in report.findings))]
    found = ", ".join(counts) or "nothing found"
    files = f"{len(report.files)} file{'s' * (len(report.files) != 1)}"
    size = f"{files}, {report.lines} lines" if report.lines else files
    lines += [f"{size}: {found}", *report.answers]
    return "\n".join(lines) + "\n"


def as_json(report):
    findings = [{
        "rule": one.rule.id, "level": one.rule.level, "file": one.path, "line": one.line,
        "column": one.column, "message": one.message, "why": one.rule.why,
        "remedy": one.rule.remedy, "fixable": one.edit is not None} for one in report.findings]
    answers = dict(one.split(": ", 1) for one in report.answers)
    return json.dumps({"findings": findings, "answers": answers, "files": report.files,
                       "lines": report.lines}, indent=2) + "\n"


def sarif(report, rules, version):
    """A log with one run, as code hosts and editors read it."""
    rules = list(rules.values())
    index = {one.id: number for number, one in enumerate(rules)}
    run = {
        "tool": {"driver": {
            "name": "tremula check", "version": version,
            "rules": [{
                "id": one.id, "shortDescription": {"text": one.title},
                "fullDescription": {"text": one.why},
                "help": {"text": f"{one.remedy} ({_PAGE}#{one.id})"},
                "defaultConfiguration": {"level": one.level}} for one in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, index) for one in report.findings]}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding, index):
    result = {
        "ruleId": finding.rule.id, "ruleIndex": index[finding.rule.id],
        "level": finding.rule.level, "message": {"text": finding.message},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": _uri(finding.path)},
            "region": {"startLine": finding.line, "startColumn": finding.column}}}]}
    if finding.edit is not None:
        edit = finding.edit
        result["fixes"] = [{
            "description": {"text": finding.rule.remedy},
            "artifactChanges": [{
                "artifactLocation": {"uri": _uri(edit.path)},
                "replacements": [{
                    "deletedRegion": {
                        "startLine": edit.line, "startColumn": edit.column + 1,
                        "endLine": edit.end_line, "endColumn": edit.end_column + 1},
                    "insertedContent": {"text": edit.text}}]}]}]
    return result


def _uri(path):
    """A path as a URI: relative ones stay relative."""
    from urllib.parse import quote
    path = pathlib.PurePath(path)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def diff(report):
    """The changes that are mechanical, as a unified diff for `patch -p0` or `git apply -p0`."""
    by_file = {}
    for one in report.findings:
        if one.edit is not None:
            by_file.setdefault(one.edit.path, set()).add(one.edit)
    pieces = []
    for path, edits in sorted(by_file.items()):
        data = pathlib.Path(path).read_bytes().decode("utf-8", errors="surrogateescape")
        old = data.splitlines(keepends=True)
        new = changed(old, edits)
        pieces += [one if one.endswith("\n") else one + "\n\\ No newline at end of file\n"
                   for one in difflib.unified_diff(old, new, path, path)]
    return "".join(pieces)


def changed(lines, edits):
    """The lines of a file after its edits, the last first, so that places stay right."""
    lines, before = list(lines), (len(lines) + 1, 0)
    for edit in sorted(edits, key=lambda one: (one.line, one.column), reverse=True):
        if (edit.end_line, edit.end_column) > before:
            continue  # of the same place as the last: the next check tells of it
        before = (edit.line, edit.column)
        first, last = lines[edit.line - 1], lines[edit.end_line - 1]
        lines[edit.line - 1:edit.end_line] = [
            first[:edit.column] + edit.text + last[edit.end_column:]]
    return "".join(lines).splitlines(keepends=True)
