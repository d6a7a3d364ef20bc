"""Where the headers, the libraries to link to and the cache of compiled codelets lie."""

import os
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
INCLUDE = FOLDER / "include"
LIBRARIES = FOLDER / "lib"
PROGRAMS = FOLDER / "bin"


def table_headers():
    """The folder with tremula/poplar.h, over which the C++ headers are written: that of the
    package, or the tree's."""
    if (INCLUDE / "tremula").is_dir():
        return INCLUDE
    return FOLDER.parents[2] / "include"


def cache():
    """The folder of compiled codelets: TREMULA_CODELET_CACHE, or one in the user's cache."""
    chosen = os.environ.get("TREMULA_CODELET_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "tremula" / "codelets"
