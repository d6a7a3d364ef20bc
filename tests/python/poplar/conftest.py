"""Custom operators in C++: what all of their tests need."""
import importlib.util
import shutil

import pytest


def pytest_collection_modifyitems(items):
    missing = [name for name, there in (
        ("g++", shutil.which("g++")), ("pyelftools", importlib.util.find_spec("elftools")))
        if not there]
    if missing:
        for item in items:
            if item.path.parent.name == "poplar":
                item.add_marker(pytest.mark.skip(reason=f"needs {' and '.join(missing)}"))
