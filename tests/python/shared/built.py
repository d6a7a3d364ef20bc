"""What tests start: programs and libraries, by default of the release build, and the sources."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/release"


def program(name):
    """The path of a program: in TREMULA_BIN_DIR; without it in the release build or in PATH."""
    folder = pathlib.Path(os.environ.get("TREMULA_BIN_DIR") or BUILD / "bin")
    if (folder / name).exists():
        return str(folder / name)
    found = None if os.environ.get("TREMULA_BIN_DIR") else shutil.which(name)
    assert found, f"there is no {name} in {folder}: build it, or set TREMULA_BIN_DIR"
    return found


def variables():
    """The variables with which another Python finds the sources and the libraries."""
    return {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
            "TREMULA_LIBRARY_DIR": os.environ.get("TREMULA_LIBRARY_DIR") or str(BUILD / "lib")}
