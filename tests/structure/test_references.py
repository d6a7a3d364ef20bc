"""The pages of the Python reference say of each name what docs/api.md says: a working or an ignored
one has an entry, a refused one says so, and one that is not there yet has none, in the stubs of
editors neither. Those of C are made from every public header, which needs libclang
(tests/python/site/test_site.py)."""
import importlib
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference():
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "docs/site"))
    try:
        return importlib.import_module("python_reference")
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def pages(reference):
    return dict(reference.pages())


def entry(page, name):
    """The text of the entry of a name in a page, without the entries below it; None: no entry."""
    found = re.search(rf"^\.\. py:\w+:: {re.escape(name)}\b(?:.*\n)+?(?=\.\. py:|\Z)", page, re.M)
    return found and found[0]


def test_entries_say_what_the_table_says(reference, pages):
    sources, wrong, seen = reference.read(), [], set()
    for package, module, name, member, status, why in reference.make_api_table.symbols(
            sources.data):
        if member:
            continue
        seen.add(status)
        text = entry(pages.get(f"{package}.{module}", ""), name)
        first = re.search(r"\.\. plain::\n\n +(.*)", text or "")
        notes = [one for one in reference.STATUS.values()
                 if first and first[1].startswith(f"{one}: ")]
        wanted = [reference.STATUS[status]] if status in reference.STATUS else []
        if (text is None) != (status == "not yet") or notes != wanted:
            wrong.append((f"{package}.{module}.{name}", status, why, text))
    assert not wrong
    assert seen == {"works", "ignored", "refused", "not yet"}


def test_entries_say_something(pages):
    """A name is described, has a value, or is a constant or a message of protocol buffers."""
    empty = [f"{place}.{head}" for place, text in pages.items() if not place.endswith("_pb2")
             for head, value in re.findall(
                 r"^\.\. py:\w+:: (.*)\n(   :value:.*\n)?\n*(?=\.\. py|\Z)", text, re.M)
             if not value and head.upper() != head]
    assert [one.rpartition(".")[2] for one in empty] == [
        "IPUMultiReplicaExtended", "IPUOwnedIterator"]


def test_what_is_not_there_yet_is_in_no_page_and_no_stub(reference, pages):
    sources = reference.read()
    absent = [name for _, _, name, _, status, _ in reference.make_api_table.symbols(sources.data)
              if status == "not yet"]
    assert absent
    for name in absent:
        assert not [place for place, text in pages.items() if re.search(rf"\b{name}\b", text)]
        assert not [path for path, text in sources.texts.items() if re.search(rf"\b{name}\b", text)]


def test_the_import_finder_has_each_module_that_has_a_page(pages):
    from tremula import _finder
    checked = 0
    for place in pages:
        for alias, package in _finder.ALIASES.items():
            if place.startswith(f"{alias}."):
                checked += 1
                assert _finder.resolve(package, place[len(alias) + 1:]), place
    assert checked > 80


def test_the_names_of_tensorflow_1_and_of_horovod_have_pages(pages):
    assert {"tensorflow.contrib", "tensorflow.contrib.layers", "tensorflow.contrib.training",
            "tensorflow.compiler.tests.xla_test", "horovod.tensorflow"} <= set(pages)
    assert ":doc:`layers </docs/reference/tensorflow.contrib.layers>`" in pages[
        "tensorflow.contrib"]
    assert "`tensorflow.contrib.ipu` is `tensorflow.python.ipu`" in pages["tensorflow.contrib"]
    assert "`tf.train.load_checkpoint` of TensorFlow." in entry(
        pages["tensorflow.contrib.framework"], "load_checkpoint")
