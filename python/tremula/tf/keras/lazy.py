"""Packages whose modules and names are imported when they are first named."""

import importlib
import sys


def names(package, places, modules):
    """The functions `__getattr__` and `__dir__` of a package.

    package  its name
    places   {name: the module of the package that has it}
    modules  the modules that the package shows
    """
    def find(name):
        if name in places:
            value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *places, *modules})
