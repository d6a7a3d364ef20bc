"""Keys, links, names, and what leaves the page."""

import pathlib
import re
import subprocess
import sys

import pytest

import walking
from analyser import ROOT, VIEWS, environment, tremula

def focused(page):
    return page.page.evaluate("""() => {
        const one = document.activeElement;
        return (one.getAttribute("aria-label") || one.textContent || one.tagName).trim();
    }""")


def test_keys_reach_every_view_and_control(new_page, html):
    page = new_page().open(html("plain"))
    page.page.locator("main").focus()
    for number, view in enumerate(VIEWS[:9], 1):
        page.page.keyboard.press(str(number))
        page.wait(view)
    for view in [*VIEWS, "trace&mode=sandwich"]:
        page.go(f"v={view}")
        walking.reach_every_control(page)
    assert not page.faults


def test_keys_move_zoom_choose_and_go_back(new_page, html):
    page = new_page().open(f"{html('plain')}#v=memory", "memory")
    keyboard = page.page.keyboard
    page.page.locator("#memory-chart").focus()
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    tip = page.page.locator(".tip").first
    assert "tile 1" in tip.inner_text() or "tile 2" in tip.inner_text()
    keyboard.press("w")
    page.until("location.hash.includes('z=')")
    keyboard.press("0")
    page.until("!location.hash.includes('z=')")
    keyboard.press("Enter")
    page.page.wait_for_selector("#tile-variables")
    assert "tiles=" in page.page.url
    assert focused(page).startswith("Bytes by tile")
    page.page.locator("main").focus()
    keyboard.press("Escape")
    page.page.wait_for_selector("#tile-variables", state="detached")
    keyboard.press("/")
    assert page.page.evaluate("document.activeElement.matches('input')")
    keyboard.press("Escape")
    keyboard.press("Control+k")
    page.page.wait_for_selector("#palette[open]")
    keyboard.type("view: trace")
    keyboard.press("Enter")
    page.wait("trace")
    keyboard.press("?")
    assert "Zoom in" in page.page.locator("#palette").inner_text()
    keyboard.press("Escape")
    page.go("v=program&depth=0")
    page.page.locator("#programs tbody tr").first.focus()
    keyboard.press("ArrowRight")
    assert page.page.locator("#programs tbody tr").count() > 1
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    page.page.wait_for_selector("text=Rows of the trace")
    assert "step=1" in page.page.url
    assert not page.faults


def test_arrow_keys_reach_every_box_of_a_treemap(new_page, html):
    """Also those that are no stops of the Tab key; the focus is seen."""
    page = new_page().open(f"{html('pipeline')}#v=memory", "memory")
    boxes = page.page.locator(".treemap button")
    names = boxes.evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert boxes.last.get_attribute("tabindex") == "-1"
    boxes.first.focus()
    reached = [focused(page)]
    while reached[-1] != names[-1]:
        page.page.keyboard.press("ArrowRight")
        assert len(reached) < len(names)
        reached.append(focused(page))
    assert reached == names
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.page.evaluate(outline) == "solid"
    page.page.keyboard.press("ArrowLeft")
    assert focused(page) == names[-2]
    assert not page.faults


def test_links_show_the_same_and_back_works(new_page, html):
    page = new_page().open(html("plain"))
    page.page.get_by_role("link", name="Operations").first.click()
    page.wait("operations")
    page.page.locator("#operations tbody tr").first.click()
    page.page.wait_for_selector("#steps")
    link = page.page.url
    text = page.main()
    page.page.go_back()
    page.page.wait_for_selector("#steps", state="detached")
    page.page.go_back()
    page.wait("summary")
    other = new_page().open(link, "operations")
    assert other.main() == text
    other.go("v=memory&by=category&gaps=0&tiles=5,7&y=fit&bytes=KiB")
    assert other.page.locator("[data-focus=by]").input_value() == "category"
    assert "KiB" in other.main()
    assert not page.faults and not other.faults


def test_a_view_that_was_left_is_let_go(new_page, html):
    """Charts of views that were shown before hold no memory.

    The last view's nodes may wait for a later collection; a leak grows with every round.
    """
    page = new_page().open(html("plain"))
    tools = page.page.context.new_cdp_session(page.page)

    def nodes():
        for view in ("memory", "trace", "liveness", "summary") * 2:
            page.go(f"v={view}")
        tools.send("HeapProfiler.collectGarbage")
        return tools.send("Memory.getDOMCounters")["nodes"]
    first = nodes()
    assert min(nodes() for _ in range(4)) < first + 100
    assert not page.faults


def test_a_long_sort_is_cancelled(new_page, html):
    """The rows stay as they were; time stands for a table of millions of rows."""
    page = new_page().open(f"{html('plain')}#v=operations", "operations")
    before = page.table("operations")
    state = page.page.evaluate("""() => {
        let now = 0;
        performance.now = () => (now += 30);
        const box = document.querySelector("section.panel:has(#operations)");
        const status = box.querySelector("[role=status]");
        const stop = [...box.querySelectorAll("button")].find((b) => b.textContent === "Cancel");
        const shown = () => [status.textContent, stop.hidden,
            box.querySelector("[aria-sort]").textContent];
        box.querySelector("thead button").click();
        const during = shown();
        stop.click();
        return [during, shown()];
    }""")
    (doing, hidden, head), (after, gone, again) = state
    assert doing.startswith("Arranging") and not hidden and head.startswith("Name")
    assert after == f"{len(before)} rows" and gone and again.startswith("Cycles")
    page.page.wait_for_timeout(50)
    assert page.table("operations") == before
    page.page.locator("#operations thead button").first.click()
    page.page.wait_for_selector(f"[role=status]:text-is('{len(before)} rows')")
    assert page.page.locator("#operations [aria-sort]").inner_text().startswith("Name")
    assert not page.faults


def test_two_reports_can_be_swapped(new_page, html):
    page = new_page().open(html("plain", "changed"))
    assert "plain" in page.page.title()
    page.page.locator("main").focus()
    page.page.keyboard.press("c")
    page.page.wait_for_selector("button[aria-pressed=true] >> text=Report B")
    assert "changed" in page.page.title() or "r=b" in page.page.url
    assert not page.faults


def test_many_reports_are_a_list_to_choose_from(new_page, viewer, profiles):
    page = new_page()
    page.page.goto(viewer.as_uri())
    page.page.locator("#choose-folder").set_input_files(str(profiles["plain"].parents[1]))
    page.page.wait_for_selector("#reports")
    text = page.main()
    assert "too_large" in text and "does not fit" in text
    page.page.locator("#reports tbody tr", has_text="hostile").locator("button").click()
    page.wait("summary")
    assert not page.faults


def test_names_are_text_and_never_markup(new_page, html):
    page = new_page().open(html("hostile"))
    for view in VIEWS:
        page.go(f"v={view}&step=3&tiles=0")
    page.go("v=operations")
    text = page.main()
    assert "<img src=x onerror=alert(1)>" in text and "'; DROP--" in text
    assert page.page.locator("main img, main script").count() == 0
    page.go("v=operations&op=<img src=x onerror=alert(1)>/MatMul")
    page.go("v=graph&open=__proto__/")
    assert not page.faults


def test_nothing_leaves_the_page(new_page, html):
    page = new_page().open(html("plain", "changed"))
    for view in VIEWS:
        page.go(f"v={view}")
    asked = [url.split(":", 1)[0] for url in page.requests]
    assert set(asked) <= {"file", "blob", "data"} and asked.count("file") == 1
    blocked = page.page.evaluate("""async () => {
        try {
            await fetch("http://127.0.0.1:9/");
            return "it went out";
        } catch (error) {
            return "blocked";
        }
    }""")
    assert blocked == "blocked"


def test_a_notebook_shows_the_page(new_page, profiles, tmp_path):
    import tremula
    cell = tremula.report(str(profiles["plain"]))._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html><title>cell</title>{cell}",
                                        encoding="utf-8")
    page = new_page()
    page.page.goto((tmp_path / "cell.html").as_uri())
    frame = page.page.frame_locator("iframe")
    frame.locator("[data-key=cycles]").wait_for()
    frame.get_by_role("link", name="Trace").first.click()
    frame.locator("#trace-chart").wait_for()
    assert not page.faults


@pytest.mark.parametrize("scheme", [
    "light", pytest.param("dark", marks=pytest.mark.long)])
def test_a_screen_reader_finds_its_way(new_page, html, scheme):
    page = new_page(color_scheme=scheme, bypass_csp=True).open(html("plain", "changed"))
    links = [f"v={view}&tiles=0&step=3&op=net/wide/MatMul"
             for view in [*VIEWS, "trace&mode=sandwich"]]
    rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}  # what dark changes
    walking.find_nothing_serious(page, links, rules)


def test_large_text_and_small_windows(new_page, html):
    page = new_page()
    page.page.set_viewport_size({"width": 640, "height": 360})  # 1280 x 720 at 200 %
    page.open(html("plain"))
    for view in [*VIEWS, "trace&mode=sandwich"]:
        page.go(f"v={view}")
        wide = page.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 1, view


# Of each row of cards: how far its end is from the end of the row, and the heights.
_CARDS = """() => [...document.querySelectorAll("main .columns:not(.tables)")].flatMap((box) => {
    const end = box.getBoundingClientRect().right, rows = new Map();
    for (const card of box.children) {
        const place = card.getBoundingClientRect();
        const row = rows.get(place.top) ?? { end: 0, heights: new Set() };
        row.end = Math.max(row.end, place.right);
        row.heights.add(Math.round(place.height));
        rows.set(place.top, row);
    }
    return [...rows.values()].map((row) => [end - row.end, row.heights.size]);
})"""


@pytest.mark.parametrize("width", [640, 1280, 1920])
def test_cards_leave_no_holes(new_page, html, width):
    page = new_page()
    page.page.set_viewport_size({"width": width, "height": 720})
    page.open(html("plain"))
    for view in ("summary", "insights", "memory", "memory&tiles=0,5,9"):
        page.go(f"v={view}")
        rows = page.page.evaluate(_CARDS)
        assert rows and all(abs(left) < 1 and heights == 1 for left, heights in rows), view
    page.go("v=summary")
    heights = page.page.locator("#options tbody tr").evaluate_all(
        "all => all.map((row) => row.getBoundingClientRect().height)")
    assert max(heights) - min(heights) < 1, "a path that is not cut is as high as other values"


def test_page_with_source(new_page, profiles, tmp_path):
    """--with-source takes the files that are there; this profile's model.py is not."""
    out = tmp_path / "page.html"
    tremula("report", profiles["plain"], "--html", out, "--with-source")
    page = new_page().open(f"{pathlib.Path(out).as_uri()}#v=source", "source")
    assert "The text of this file is not here" in page.main()
    assert not page.faults


def test_pictures_of_the_documentation(browser, profiles, tmp_path):
    """The script that made docs/pictures writes one of each view."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/analyser_pictures.py", tmp_path, profiles["plain"],
         "--view", "trace=v=trace", "--view", "liveness=v=liveness&step=2"], text=True, check=False,
        capture_output=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stderr
    for name in ("trace", "liveness"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    pictures = re.findall(r"\]\((pictures/[\w.]+)\)", (ROOT / "docs/analyser.md").read_text())
    assert {f"pictures/{path.name}" for path in (ROOT / "docs/pictures").iterdir()} == set(pictures)
