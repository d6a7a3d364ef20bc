"""What `tremula poplar` prints: the folder of Poplar's headers, and the variables that find it.

    python -m tremula.poplar.environment --env | --prefix
"""

import pathlib
import shlex
import sys

from tremula import core
from tremula.poplar import paths


def variables():
    """Names of variables of the environment, and the folders that go before their values."""
    includes = [paths.INCLUDE]
    if paths.table_headers() != paths.INCLUDE:
        includes.append(paths.table_headers())
    return {"PATH": [paths.PROGRAMS], "CPLUS_INCLUDE_PATH": includes,
            "LIBRARY_PATH": [paths.libraries()], "CMAKE_PREFIX_PATH": [paths.FOLDER]}


def main(words):
    if words == ["--prefix"]:
        print(paths.FOLDER)
        return
    print(f"export POPLAR_SDK_ENABLED={shlex.quote(str(paths.FOLDER))}")
    for name, folders in variables().items():
        value = ":".join(shlex.quote(str(one)) for one in folders)
        print(f'export {name}={value}"${{{name}:+:${name}}}"')
    library = pathlib.Path(core.library_path())
    if library.parent != paths.FOLDER.parent / "lib":  # a tree: plain programs look beside
        print(f"export TREMULA_LIBRARY_DIR={shlex.quote(str(library.parent))}")


if __name__ == "__main__":
    main(sys.argv[1:])
