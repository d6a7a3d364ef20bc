"""A file may be missing, cut short, flipped or of another run: a sentence says so, the rest works.
"""

import random
import shutil

import pytest

from analyser import VIEWS

FILES = ["profile.pop", "vars.capnp", "debug.cbor", "archive.a", "framework.json",
         "serialized_graph.hlo"]
# The view that needs the file most.
NEEDS = {"profile.pop": "operations", "vars.capnp": "memory&tiles=1",
         "debug.cbor": "files&file=debug.cbor", "archive.a": "files&file=archive.a&tiles=1",
         "framework.json": "graph", "serialized_graph.hlo": "files&file=serialized_graph.hlo"}


@pytest.fixture
def chosen(new_page, viewer, profiles, tmp_path):
    """chosen(change): a page that opened the files of a profile, as a user chooses them, after
    change(folder)."""
    page = new_page()
    page.page.goto(viewer.as_uri())

    def open_changed(change, name="plain"):
        folder = tmp_path / "profile"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(profiles[name], folder)
        shutil.copy(profiles[name].parent / "debug.cbor", folder)
        change(folder)
        page.page.evaluate("history.replaceState(null, '', '#')")
        page.page.evaluate("""() => {
            dispatchEvent(new Event("hashchange"));
            document.querySelector("main").dataset.drawn = "";
        }""")
        page.page.get_by_role("button", name="Open …").click()
        page.page.locator("#choose-files").set_input_files(sorted(map(str, folder.iterdir())))
        page.page.wait_for_selector(
            "main[data-view='summary'][data-drawn]:not([data-drawn='']), [role=alert]")
        return page
    return open_changed


def is_open(page):
    return page.page.locator("main").get_attribute("data-view") == "summary"


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_named_and_the_rest_works(chosen, file):
    page = chosen(lambda folder: (folder / file).unlink())
    if file == "profile.pop":
        assert "no profile.pop" in page.main()
        return
    text = page.main()
    assert "found" in text
    page.go(f"v={NEEDS[file]}")
    assert f"no {file}" in page.main()
    page.go("v=operations")
    assert page.table("operations")
    assert not page.faults


PLACES = (0, 1, 15, 0.1, 0.5, 0.9, 0.999)
MORE_PLACES = (7, 16, 100, 1000, *(i / 11 for i in range(1, 10)))


@pytest.mark.parametrize("places", [
    PLACES, pytest.param(MORE_PLACES, marks=pytest.mark.long)], ids=["some", "more"])
@pytest.mark.parametrize("file", [
    one if one in ("archive.a", "vars.capnp") else pytest.param(one, marks=pytest.mark.long)
    for one in FILES])
def test_a_file_that_is_cut_short_gives_right_numbers_or_a_sentence(chosen, file, places):
    """Cut at 20 places all over the file: what is shown is right or a sentence; nothing fails."""

    def cut(place):
        def change(folder):
            data = (folder / file).read_bytes()
            end = place if isinstance(place, int) else int(len(data) * place)
            (folder / file).write_bytes(data[:end])
        return change
    for place in places:
        page = chosen(cut(place))
        if is_open(page):
            page.go(f"v={NEEDS[file]}")
            if file not in ("profile.pop", "serialized_graph.hlo", "debug.cbor"):
                assert f"{file} is damaged" in page.main(), place
        else:
            assert file == "profile.pop"
            assert "profile" in page.page.locator("[role=alert]").inner_text()
    assert not page.faults


@pytest.mark.parametrize("file", ["archive.a"] + [
    pytest.param(one, marks=pytest.mark.long)
    for one in ("profile.pop", "vars.capnp", "framework.json")])
def test_flipped_bytes_never_break_the_page(chosen, file):
    source = random.Random(14)

    def flip(folder):
        data = bytearray((folder / file).read_bytes())
        for _ in range(30):
            data[source.randrange(min(len(data), 200000))] ^= 1 << source.randrange(8)
        (folder / file).write_bytes(data)
    for _ in range(4):
        page = chosen(flip)
        if is_open(page):
            for view in ("memory&tiles=0", "liveness&step=1", "trace", "operations", "graph"):
                page.go(f"v={view}")
        assert page.main()
    assert not page.faults


def test_another_format_and_other_files(chosen):
    import sqlite3

    def change(sql):
        def act(folder):
            with sqlite3.connect(folder / "profile.pop") as database:
                database.executescript(sql)
            database.close()
        return act
    page = chosen(change("UPDATE meta SET value = 7 WHERE key = 'format'"))
    assert "has the format 7; this page reads format 2" in page.main()
    page = chosen(change("CREATE TABLE unknown(a); ALTER TABLE programs ADD COLUMN more INTEGER"))
    assert is_open(page), page.main()
    page = chosen(lambda folder: (folder / "profile.pop").write_text("no profile"))
    assert "a profile.pop, an SQLite database" in page.main()
    page = chosen(change("DROP TABLE trace; DROP TABLE runs; DROP TABLE notes"))
    assert is_open(page)
    page.go("v=trace")
    assert "no table 'trace'" in page.main()
    page = chosen(change("UPDATE memory_by_tile SET always_live = always_live + 4 WHERE tile = 0"))
    page.go("v=memory")
    assert "this profile is damaged" in page.main()
    assert not page.faults


def test_files_of_another_run(chosen, profiles):
    def swap(folder):
        shutil.copy(profiles["loop"] / "vars.capnp", folder)
        shutil.copy(profiles["loop"].parent / "debug.cbor", folder)
    page = chosen(swap)
    page.go("v=memory&tiles=0")
    assert "belongs to another profile" in page.main()
    page.go("v=files&file=debug.cbor")
    assert "belongs to another profile" in page.main()
    assert not page.faults


@pytest.mark.parametrize("name", ["pipeline"] + [
    pytest.param(one, marks=pytest.mark.long) for one in ("plain", "large", "loop", "run")])
def test_every_view_opens(new_page, html, name):
    page = new_page().open(html(name))
    for view in VIEWS:
        page.go(f"v={view}&tiles=0,1&step=2&op=net/wide/MatMul")
        assert page.page.locator("main [role=alert]").count() == 0, (view, page.main())
    assert not page.faults
