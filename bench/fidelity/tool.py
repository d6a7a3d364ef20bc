"""Finds the tool `tremula` for the scripts of this folder."""

import os
import shutil
import sys


def find_tremula():
    """The tool of TREMULA_BIN_DIR, else of the release build, else of PATH."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [os.environ.get("TREMULA_BIN_DIR"), os.path.join(root, "build", "release", "bin")]
    for folder in filter(None, folders):
        path = os.path.join(folder, "tremula")
        if os.path.exists(path):
            return path
    return shutil.which("tremula") or sys.exit("there is no tremula: build it (make demo)")
