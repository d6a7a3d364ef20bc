"""`tremula check --run`: the script runs, but nothing is trained, and its graphs are looked at.

    loops      loops of the script that have made steps end early
    stand_ins  what stands in the places of sessions, functions, fit, train, checkpoints
    steps      what is noted meanwhile
    outfeeds   what outfeed queues give
    zeros      results of the right shapes
    graphs     what the graphs tell, by the lines that made their operations
    sizes      the graphs as programs for an IPU, planned
    answers    the five answers
"""

import ast
import contextlib
import os
import re
import sys
import tempfile
import traceback

from tremula import check, tool
from tremula.check import project, rules
from tremula.check.rules import types

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run(script, arguments):
    """A check.Report on a script that is run with these arguments, on top of what reading finds."""
    with tool.quietly():
        tool.need_tensorflow()
    report = check.check([script])
    program = project.Project([script])
    by_path = {os.path.realpath(file.path): file for file in program.files}
    if any(one.rule.id == "syntax" for one in report.findings):
        return report
    with _silently() as log:
        from tremula.check.running import answers, steps
        recorder = steps.Recorder(set(by_path))
        fault = _trace(script, arguments, recorder, program, log)
        found, size = _look(recorder, report, program.for_ipu)
    if fault is not None:
        found.append(fault)
    findings = _merged(report.findings, found, by_path)
    return report._replace(findings=findings, answers=answers.answers(
        findings, recorder.steps, size, report.answers))


# ---- Running ----

def _trace(script, arguments, recorder, program, log):
    """Runs the script. Returns its fault as (rule, path, line, message), or None."""
    from tremula.check.running import loops
    if program.for_ipu:
        from tremula.tool import staged
        staged.use_ipu_model()
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.argv = [script, *arguments]
    from tremula.check.running import stand_ins
    stand_ins.install(recorder, program.for_ipu)
    if program.is_native_v1():  # as `python -m tremula.tf1` runs it
        from tremula.tf1 import setup
        setup.install()
    try:
        with _programs_noted(recorder):
            loops.run(script, recorder.files, loops.Loops(lambda: recorder.count))
    except SystemExit as end:
        if end.code in (None, 0):
            return None
        said = end.code if isinstance(end.code, str) else _last_line(log)
        return _fault(script, end, recorder, f"the script ends with exit code "
                      f"{end.code if isinstance(end.code, int) else 1}: {said}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pylint: disable=broad-exception-caught
        return _fault(script, error, recorder, f"the script ends with {type(error).__name__}: "
                      f"{_short(_COLOURS.sub('', str(error)), 300)}")
    return None


def _fault(script, error, recorder, message):
    """What ended the script, at the innermost line of the program's."""
    frames = [one for one in traceback.extract_tb(error.__traceback__)
              if recorder.is_own(one.filename)]
    path, line = (frames[-1].filename, frames[-1].lineno) if frames else (script, 1)
    return "script-fails", path, line, message


def _last_line(log):
    sys.stderr.flush()
    log.seek(0)
    lines = log.read().decode(errors="replace").split("\n")
    return next((one.strip() for one in reversed(lines) if one.strip()), "")


@contextlib.contextmanager
def _programs_noted(recorder):
    """Tells the Recorder of the programs for IPUs that are made in the block."""
    from tremula.check.running import graphs
    from tremula.tf.inner import graphs as inner
    from tremula.tf.runtime.launching import launching

    def note(trace, lowered):
        if lowered is not None:
            recorder.outfeeds.note(trace, lowered.module)
            known = [trace.graph, *inner.function_graphs(trace.graph).values()]
            recorder.modules.append((lowered.module, any(
                graphs.trains(one.get_operations()) for one in known)))

    with launching.observed(note):
        yield


@contextlib.contextmanager
def _silently():
    """A block in which nothing is printed: what a script says of zeros would mislead. Gives a file
    with what was said."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryFile() as log:
        kept = [os.dup(1), os.dup(2)]
        for number in (1, 2):
            os.dup2(log.fileno(), number)
        try:
            yield log
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            for number, one in zip((1, 2), kept):
                os.dup2(one, number)
                os.close(one)


# ---- Looking ----

def _look(recorder, report, for_ipu):
    """([(rule, path, line, message)], the Size of the largest step or a text why there is none)."""
    from tremula.check.running import graphs, sizes
    reader, found = graphs.Reader(recorder, for_ipu), []
    known = {"unknown-shape" for one in report.findings if one.rule.id == "drop-remainder"} | {
        "int64" for one in report.findings if one.message.startswith(types.FED)}
    for step in recorder.steps:
        if step.kind == "eager":
            found.append(("eager-step", step.path, step.line,
                          "this step runs operation by operation: it is in no tf.function"))
        if step.kind == "session" and step.times > 1 and step.fed and graphs.is_training(step):
            found.append(("feed-without-queue", step.path, step.line,
                          "every step waits for the host: feed through an IPUInfeedQueue"))
        found += [one for one in graphs.findings(step, reader)
                  if one[0] not in known]
    step = _largest(recorder.steps)
    if step is None:
        return found, "none is in a tf.function"
    try:
        return found, sizes.size(step)
    except tool.Complaint as complaint:
        blamed = {one for one in found if one[0] in (
            "unsupported-op", "value-dependent-shape", "host-call", "float64")}
        if not blamed and not report.failed:
            origins = list(graphs.unknown_origins(step, reader)) if step.graph else []
            found += [("unknown-shape", *one) for one in origins[:3]] or [
                ("unsupported-op", step.path, step.line,
                 f"the step does not become a program: {_short(complaint)}")]
        return found, _short(complaint)


def _short(message, most=200):
    text = " ".join(str(message).split())
    return text if len(text) < most else text[:most - 3] + "..."


def _largest(steps):
    """The step to plan: the largest that trains, else the largest."""
    from tremula.check.running import graphs
    steps = [one for one in steps if one.graph is not None or one.module is not None]
    return max(steps, default=None, key=lambda one: (
        graphs.is_training(one), len(one.module or b""),
        len(graphs.operations(one)) if one.graph is not None else 0))


def _statement(file, line):
    """The first and the last line of the simple statement that a line is in, or the line twice."""
    around = [one for one in file.nodes if isinstance(one, ast.stmt) and not hasattr(one, "body")
              and one.lineno <= line <= one.end_lineno] if file is not None else []
    return (around[0].lineno, around[0].end_lineno) if around else (line, line)


def _merged(findings, found, by_path):
    """The findings of reading with those of running, each statement and rule once."""
    lines = set()
    for one in findings:
        real = os.path.realpath(one.path)
        first, last = _statement(by_path.get(real), one.line)
        lines |= {(real, line, one.rule.id) for line in range(first, last + 1)}
    merged, table = list(findings), rules.load()
    for rule, path, line, message in found:
        real = os.path.realpath(path)
        file = by_path.get(real)
        if (real, line, rule) in lines or file is not None and rule in check.ignored(file, line):
            continue
        lines.add((real, line, rule))
        text = file.lines[line - 1] if file is not None and 0 < line <= len(file.lines) else ""
        column = len(text) - len(text.lstrip()) + 1
        merged.append(rules.Finding(table[rule], file.path if file is not None else path,
                                    max(line, 1), column, message))
    return sorted(merged, key=lambda one: (one.path, one.line, one.column, one.rule.id))
