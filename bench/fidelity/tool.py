"""Shared by the scripts of this folder: the tool `tremula`, and the tables in documents."""

import os
import shutil
import sys


def find_tremula():
    """The tool in TREMULA_BIN_DIR, in the release build, or in PATH: the first one found."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [os.environ.get("TREMULA_BIN_DIR"), os.path.join(root, "build", "release", "bin")]
    for folder in filter(None, folders):
        path = os.path.join(folder, "tremula")
        if os.path.exists(path):
            return path
    return shutil.which("tremula") or sys.exit("there is no tremula: build it (make demo)")


def replace_between(path, marks, text):
    """Puts a text between two marks of a document."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    begin, end = document.index(marks[0]) + len(marks[0]), document.index(marks[1])
    with open(path, "w", encoding="utf-8") as file:
        file.write(document[:begin] + text + document[end:])
