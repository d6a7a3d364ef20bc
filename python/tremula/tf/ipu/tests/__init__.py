"""The package that tests written for the original import each other's helpers from.

There is nothing in it: a module is looked for beside the program that runs, in the folders of
`sys.path` that have tests (*_test.py) in them, and in `tensorflow/python/ipu/tests` below any
folder of `sys.path`.
"""

import pathlib
import sys

_HERE = pathlib.Path("tensorflow/python/ipu/tests")


def _folders():
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is not None:
        yield pathlib.Path(main).resolve().parent
    for entry in sys.path:
        folder = pathlib.Path(entry or ".")
        if any(folder.glob("*_test.py")):
            yield folder.resolve()
        if (folder / _HERE).is_dir():
            yield (folder / _HERE).resolve()


__path__ = [*__path__, *dict.fromkeys(map(str, _folders()))]
