#!/usr/bin/env python3
"""Pictures of the analyser's views, as docs/analyser.md shows them.

    python scripts/analyser_pictures.py OUTPUT DIR... [--view NAME=LINK]... [--dark]

Makes a page of profiles, opens it in Debian's chromium, and writes OUTPUT/NAME.png for
each view. LINK is what follows '#' in the page's address. Without --view: every view by its name.
Needs playwright and chromium, which `make test` installs.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

VIEWS = ["summary", "insights", "memory", "tiles", "liveness", "program", "operations", "graph",
         "trace", "compare", "source", "sql", "files"]


def take(page, link, path):
    """Shows a link and writes a picture of the window."""
    page.evaluate("""link => {
        document.querySelector("main").dataset.drawn = "";
        location.hash = link;
        dispatchEvent(new Event("hashchange"));
    }""", link)
    page.wait_for_selector("main[data-drawn]:not([data-drawn=''])", timeout=120_000)
    # Charts are painted in the next frame.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    page.screenshot(path=path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="profiles and timelines")
    parser.add_argument("--view", action="append", metavar="NAME=LINK")
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright
    from tremula.tool import view
    wanted = [one.split("=", 1) for one in arguments.view or [f"{v}=v={v}" for v in VIEWS]]
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = pathlib.Path(folder) / "page.html"
        file.write_text(view.make_page(arguments.folders), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                             args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 720},
                                color_scheme="dark" if arguments.dark else "light")
        page.goto(file.as_uri())
        page.wait_for_selector("main[data-drawn]:not([data-drawn=''])", timeout=120_000)
        for name, link in wanted:
            take(page, link, arguments.output / f"{name}.png")
            print(arguments.output / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
