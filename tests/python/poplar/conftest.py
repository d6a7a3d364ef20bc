"""Custom operators in C++: what all of their tests need."""
import importlib.util
import pathlib
import shutil

import pytest
from end_to_end import *  # noqa: F401,F403

_PATH = pathlib.Path(__file__).resolve().parents[1] / "tool/conftest.py"
_SPEC = importlib.util.spec_from_file_location("tremula_tool_conftest", _PATH)
_TOOL = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_TOOL)


@pytest.fixture
def tool(tmp_path):
    return _TOOL.Tool(tmp_path)


def pytest_collection_modifyitems(items):
    missing = [name for name, there in (
        ("g++", shutil.which("g++")), ("pyelftools", importlib.util.find_spec("elftools")))
        if not there]
    if missing:
        for item in items:
            if item.path.parent.name == "poplar":
                item.add_marker(pytest.mark.skip(reason=f"needs {' and '.join(missing)}"))
