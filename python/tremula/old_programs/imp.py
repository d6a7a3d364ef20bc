"""The module `imp`, which Python 3.12 dropped: what programs use of it, over importlib."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types

PY_SOURCE, PY_COMPILED, C_EXTENSION, PKG_DIRECTORY = 1, 2, 3, 5

reload = importlib.reload
new_module = types.ModuleType
cache_from_source = importlib.util.cache_from_source


def load_source(name, pathname, file=None):
    """The module `name`, made of the file `pathname`."""
    loader = importlib.machinery.SourceFileLoader(name, pathname)
    return _load(importlib.util.spec_from_file_location(name, pathname, loader=loader))


def find_module(name, path=None):
    """(open file or None, path, (suffix, mode, kind)) of a module; ImportError if there is none."""
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {name!r}", name=name)
    if spec.submodule_search_locations is not None:
        return None, os.path.dirname(spec.origin), ("", "", PKG_DIRECTORY)
    suffix = os.path.splitext(spec.origin)[1]
    if suffix == ".py":
        return open(spec.origin), spec.origin, (suffix, "r", PY_SOURCE)
    return open(spec.origin, "rb"), spec.origin, (suffix, "rb", C_EXTENSION)


def load_module(name, file, filename, details):
    """The module that find_module() found."""
    if details[2] == PKG_DIRECTORY:
        filename = os.path.join(filename, "__init__.py")
        return _load(importlib.util.spec_from_file_location(
            name, filename, submodule_search_locations=[os.path.dirname(filename)]))
    return _load(importlib.util.spec_from_file_location(name, filename))


def _load(spec):
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
