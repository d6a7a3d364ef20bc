"""docs/api.md says what is there."""

import importlib
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("make_api_table",
                                                  ROOT / "docs/data/make_api_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find(package, module, symbol, member):
    value = getattr(importlib.import_module(f"{package}.{module}"), symbol)
    return getattr(value, member) if member else value


def test_the_page_is_up_to_date(table):
    assert (ROOT / "docs/api.md").read_text() == table.markdown(table.load()), (
        "run python docs/data/make_api_table.py")


def test_states_are_known_and_have_reasons(table):
    data = table.load()
    names = {f"{package}.{module}.{symbol}" + (f".{member}" if member else "")
             for package, module, symbol, member, *_ in table.symbols(data)}
    import fnmatch
    for one in data["states"]:
        assert one["status"] in ("ignored", "refused", "not yet") and one["why"]
        if not one["match"].startswith(table.OPERATIONS):
            assert fnmatch.filter(names, one["match"]), f"{one['match']} fits no symbol"


def test_every_symbol(table):
    """What works or is ignored can be imported; the rest says what it is not."""
    wrong = []
    for package, module, symbol, member, status, _ in table.symbols(table.load()):
        name = ".".join(filter(None, (package, module, symbol, member)))
        try:
            find(package, module, symbol, member)
        except (ImportError, AttributeError) as error:
            if "has no estimators any more" in str(error):
                continue  # TensorFlow after 2.15
            says = {"not yet": "does not have yet", "refused": "does not have"}.get(status)
            if member and status == "refused":
                continue  # nobody imports a method
            if says is None or says not in str(error):
                wrong.append(f"{name} ({status}): {error}")
        else:
            if status == "not yet":
                wrong.append(f"{name} is there: change its state in docs/data/api_symbols.json")
    assert not wrong, "\n".join(wrong)
