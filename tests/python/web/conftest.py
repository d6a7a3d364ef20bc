"""The analyser in a real browser: Debian's chromium, driven by playwright.

Profiles are made by `tremula compile` of small HLO programs, once. Without a browser or playwright
the tests that need them are skipped by name; `make test` installs both.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import hlo_programs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
VIEWS = ["summary", "insights", "memory", "tiles", "liveness", "program", "operations", "graph",
         "trace", "compare", "source", "sql", "files"]
DRAWN = "main[data-view='{}'][data-drawn]:not([data-drawn=''])"


def find_tool():
    folder = os.environ.get("TREMULA_BIN_DIR")
    built = ROOT / "build/release/bin/tremula"
    if folder:
        return str(pathlib.Path(folder) / "tremula")
    return str(built) if built.exists() else shutil.which("tremula")


def environment(**more):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "TREMULA_PYTHON": sys.executable, "PYTHONPATH": path, **more}


def tremula(*arguments, check=True, **more):
    done = subprocess.run([find_tool(), *map(str, arguments)], env=environment(**more), text=True,
                          capture_output=True, timeout=600, check=False,
                          cwd=more.pop("FOLDER", None))
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def profiles(tmp_path_factory):
    """The folders of profiles by name."""
    folder = tmp_path_factory.mktemp("profiles")
    options = json.dumps({"autoReport.all": "true", "autoReport.outputSerializedGraph": "true"})
    texts = {"plain": hlo_programs.PLAIN, "changed": hlo_programs.CHANGED,
             "large": hlo_programs.LARGE, "loop": hlo_programs.LOOP,
             "hostile": hlo_programs.hostile(), "pipeline": hlo_programs.pipeline()}
    found = {}
    for name, text in texts.items():
        own = folder / name
        own.mkdir()
        (own / "program.hlo").write_text(text, encoding="utf-8")
        more = ["--ipus", "4"] if name == "pipeline" else []
        done = subprocess.run(
            [find_tool(), "compile", "program.hlo", "-o", "x.poplar_exec", *more], cwd=own,
            env=environment(POPLAR_ENGINE_OPTIONS=options), text=True, capture_output=True,
            timeout=600, check=False)
        assert done.returncode == 0 or name == "large", done.stderr
        found[name], = own.glob("tf_report__*")
    run = subprocess.run([find_tool(), "run", "x.poplar_exec", "--repeat", "2"], text=True,
                         cwd=folder / "loop", env=environment(POPLAR_ENGINE_OPTIONS=options),
                         capture_output=True, timeout=600, check=False)
    found["run"] = max((folder / "loop").glob("tf_report__*"), key=os.path.getmtime) \
        if run.returncode == 0 else found["loop"]
    return found


@pytest.fixture(scope="session")
def browser():
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("no browser: the package playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no browser: chromium is not installed (apt-get install chromium)")
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield one
        one.close()


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
        self.page.wait_for_selector(DRAWN.format(view), timeout=120_000)

    def go(self, link):
        """Shows what a link shows, as if it had been pasted."""
        view = dict(part.split("=", 1) for part in link.split("&"))["v"]
        self.page.evaluate("""link => {
            document.querySelector("main").dataset.drawn = "";
            if (location.hash === "#" + link) dispatchEvent(new Event("hashchange"));
            else location.hash = link;
        }""", link)
        self.wait(view)

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
        return self.page.locator("main").inner_text()


@pytest.fixture
def new_page(browser):
    """new_page(): a Page in a context of its own."""
    contexts = []

    def make(**options):
        context = browser.new_context(viewport={"width": 1280, "height": 720}, **options)
        contexts.append(context)
        return Page(context.new_page())
    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def html(profiles, tmp_path_factory):
    """html(name, ...): the URL of a page with these profiles inside."""
    folder = tmp_path_factory.mktemp("pages")

    def make(*names):
        path = folder / f"{'-'.join(names)}.html"
        if not path.exists():
            tremula("report", *(profiles[name] for name in names), "--html", path)
        return path.as_uri()
    return make


@pytest.fixture(scope="session")
def viewer():
    """The path of viewer.html."""
    from tremula.tool import view
    text = view.page_text()
    path = ROOT / "build/release/lib/viewer.html"
    assert path.read_text(encoding="utf-8") == text
    return path
