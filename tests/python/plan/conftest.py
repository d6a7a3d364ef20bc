"""`tremula plan`, run as a program; the fixture is that of the tests of the command line."""

import importlib.util
import pathlib

import built
import pytest

_PATH = pathlib.Path(__file__).resolve().parents[1] / "tool/conftest.py"
_SPEC = importlib.util.spec_from_file_location("tremula_tool_conftest", _PATH)
_TOOL = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_TOOL)


@pytest.fixture
def tool(tmp_path):
    return _TOOL.Tool(tmp_path)


@pytest.fixture
def tool_path():
    return built.program("tremula")


tool_in = _TOOL.tool_in
