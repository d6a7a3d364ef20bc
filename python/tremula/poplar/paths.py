"""Where the headers, the libraries to link to and the cache of compiled codelets lie."""

import os
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
INCLUDE = FOLDER / "include"
PROGRAMS = FOLDER / "bin"


def table_headers():
    """The folder with tremula/poplar.h, over which the C++ headers are written: that of the
    package, or the tree's."""
    if (INCLUDE / "tremula").is_dir():
        return INCLUDE
    return FOLDER.parents[2] / "include"


def libraries():
    """The folder of the empty libraries to link to: that of the package, or of the tree's build."""
    builds = FOLDER.parents[2] / "build"
    chosen = pathlib.Path(os.environ.get("TREMULA_LIBRARY_DIR") or FOLDER)
    folders = [FOLDER / "lib", chosen / "poplar", builds / "release/lib/poplar",
               builds / "wheel/lib/poplar"]
    return next((one for one in folders if (one / "libpoplar.a").exists()), folders[0])


def cache():
    """The folder of compiled codelets: TREMULA_CODELET_CACHE, or one in the user's cache."""
    chosen = os.environ.get("TREMULA_CODELET_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "tremula" / "codelets"
