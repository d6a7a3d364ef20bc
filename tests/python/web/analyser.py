"""What the tests of the analyser share: the tool, and a page that notes what it must not do."""

import os
import pathlib
import subprocess
import sys

import built

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Each page compiles SQLite; a second compilation, to make it faster, would only take time.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--js-flags=--liftoff-only"]
TIMEOUT = 600_000  # milliseconds: another program may use the machine
VIEWS = ["summary", "insights", "memory", "tiles", "liveness", "program", "operations", "graph",
         "trace", "compare", "source", "sql", "files"]
DRAWN = "main[data-view='{}'][data-drawn]:not([data-drawn=''])"


def environment(**more):
    return {**os.environ, "TREMULA_PYTHON": sys.executable,
            "PYTHONPATH": built.variables()["PYTHONPATH"], **more}


def tremula(*arguments, check=True, folder=None, **more):
    """The completed process of the tool, with more variables in its environment."""
    done = subprocess.run([built.program("tremula"), *map(str, arguments)],
                          env=environment(**more), text=True, capture_output=True, timeout=600,
                          check=False, cwd=folder)
    assert not check or done.returncode == 0, done.stderr
    return done


class Page:
    """A page of the analyser, and what it did that it must not."""

    def __init__(self, page):
        self.page = page
        self.faults, self.requests = [], []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self.faults.append(message.text)
                if message.type == "error" else None)
        page.on("dialog", lambda dialog: (self.faults.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, url, view="summary"):
        self.page.goto(url)
        self.wait(view)
        return self

    def wait(self, view):
        self.page.wait_for_selector(DRAWN.format(view))

    def go(self, link):
        """Shows what a link shows, as if it had been pasted. The page hears of it at once: a view
        that it draws at the moment must not count as the link's."""
        view = dict(part.split("=", 1) for part in link.split("&"))["v"]
        self.page.evaluate("""link => {
            document.querySelector("main").dataset.drawn = "";
            history.pushState(null, "", "#" + link);
            dispatchEvent(new Event("hashchange"));
        }""", link)
        self.wait(view)

    def until(self, condition):
        """Waits for a condition. The page's policy forbids playwright's own way, whenever the
        condition does not hold at once."""
        for _ in range(TIMEOUT // 10):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(10)
        raise AssertionError(f"never: {condition}")

    def value(self, key):
        """The number behind a figure."""
        return float(self.page.locator(f'[data-key="{key}"][data-value]').first.get_attribute(
            "data-value"))

    def table(self, name):
        """The rows of a table by column, those out of sight too."""
        rows = self.page.evaluate("""name => {
            const table = document.getElementById(name), box = table.closest(".tablebox");
            const found = new Map();
            for (let top = 0; ; top += 1000) {
                box.scrollTop = top;
                box.dispatchEvent(new Event("scroll"));
                for (const row of table.querySelectorAll("tbody tr[data-place]")) {
                    found.set(Number(row.dataset.place), [...row.querySelectorAll("td")].map(
                        (cell) => [cell.dataset.column, cell.dataset.value]));
                }
                if (top > box.scrollHeight) break;
            }
            return [...found].sort((a, b) => a[0] - b[0]).map(([, cells]) => cells);
        }""", name)
        return [dict(cells) for cells in rows]

    def main(self):
        """The text in sight. Pieces of a long text have none before the browser lays them out,
        which takes a frame."""
        return self.page.evaluate("""() => new Promise((done) => requestAnimationFrame(
            () => requestAnimationFrame(() => done(document.querySelector("main").innerText))))""")
