"""python -m tremula.tool.check PATH... [--json | --sarif | --fix]: `tremula check`.
python -m tremula.tool.check --run [...] -- SCRIPT ARGUMENT...

Findings end with exit code COMPLAINED, as a failure that has been explained.
"""

import argparse
import os
import pathlib
import sys

from tremula import check, core, tool
from tremula.check import output, rules


def main():
    parser = argparse.ArgumentParser(prog="tremula check")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sarif", action="store_true")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--signature")
    parser.add_argument("--shape", action="append", default=[])
    arguments = parser.parse_args()
    try:
        report = run(arguments)
        show(report, arguments)
        sys.stdout.flush()
    except tool.Complaint as complaint:
        print("tremula:", " ".join(str(complaint).split()), file=sys.stderr)
        sys.exit(tool.COMPLAINED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(tool.COMPLAINED)
    sys.exit(tool.COMPLAINED if report.failed else 0)


def run(arguments):
    """The report on scripts, on a script that is run with arguments, or on a model."""
    if arguments.run:
        script, *rest = arguments.paths
        if is_model(script) or not script.endswith(".py"):
            raise tool.Complaint(f"--run is for scripts, and {script} is none")
        from tremula.check import running
        return running.run(script, rest)
    if len(arguments.paths) == 1 and is_model(arguments.paths[0]):
        from tremula.check import models
        with tool.quietly():
            return models.check(arguments.paths[0], arguments)
    for path in arguments.paths:
        if is_model(path):
            raise tool.Complaint(f"{path} is a model: check it by itself")
    if arguments.shape or arguments.signature:
        raise tool.Complaint("--shape and --signature are for models, and this is none")
    return check.check(scripts(arguments.paths))


def scripts(paths):
    """The files of paths: a folder stands for every .py file below."""
    found = []
    for path in map(pathlib.Path, paths):
        below = sorted(one for one in path.rglob("*.py") if not any(
            part.startswith(".") for part in one.relative_to(path).parts)) if path.is_dir() \
            else [path]
        if not below:
            raise tool.Complaint(f"{path} is a folder with no .py file and no saved_model.pb")
        found += below
    return found


def is_model(path):
    path = pathlib.Path(path)
    if path.is_dir():
        return (path / "saved_model.pb").is_file() or (path / "saved_model.pbtxt").is_file()
    if path.suffix in (".keras", ".h5", ".hdf5", ".pb", ".pbtxt", ".hlo"):
        return True
    with open(path, "rb") as file:
        start = file.read(512)
    return path.suffix != ".py" and (start.startswith(b"HloModule") or b"\0" in start)


def show(report, arguments):
    if arguments.json:
        sys.stdout.write(output.as_json(report))
    elif arguments.sarif:
        sys.stdout.write(output.sarif(report, rules.load(), core.version()))
    elif arguments.fix:
        sys.stdout.write(output.diff(report))
    else:
        sys.stdout.write(output.text(report))


if __name__ == "__main__":
    main()
