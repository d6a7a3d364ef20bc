"""The analyser in a real browser: Debian's chromium, driven by playwright.

Profiles are made by `tremula compile` of small HLO programs, once. Without a browser or playwright
the tests that need them are skipped by name; `make test` installs both.
"""

import functools
import importlib.util
import json
import pathlib
import shutil
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import hlo_programs  # noqa: E402
from analyser import FLAGS, ROOT, TIMEOUT, Page, tremula  # noqa: E402


@pytest.fixture(scope="session")
def profiles(tmp_path_factory):
    """The folders of profiles by name."""
    folder = tmp_path_factory.mktemp("profiles")
    options = json.dumps({"autoReport.all": "true", "autoReport.outputSerializedGraph": "true"})
    texts = {"plain": hlo_programs.PLAIN, "changed": hlo_programs.CHANGED,
             "renamed": hlo_programs.RENAMED, "gradients": hlo_programs.GRADIENTS,
             "large": hlo_programs.LARGE, "loop": hlo_programs.LOOP,
             "counted": hlo_programs.COUNTED,
             "hostile": hlo_programs.hostile(), "pipeline": hlo_programs.pipeline()}
    found = {}
    for name, text in texts.items():
        own = folder / name
        own.mkdir()
        (own / "program.hlo").write_text(text, encoding="utf-8")
        more = ["--ipus", "4"] if name == "pipeline" else []
        tremula("compile", "program.hlo", "-o", "x.poplar_exec", *more, folder=own,
                check=name != "large", POPLAR_ENGINE_OPTIONS=options)
        found[name], = own.glob("tf_report__*")
    for name, program in (("run", "loop"), ("counts", "counted")):
        own = folder / program
        np.save(own / "x.npy", np.ones((128, 128), np.float32))
        np.save(own / "n.npy", np.int32(10))
        given = ["--input", "0=x.npy", *(["--input", "1=n.npy"] if name == "counts" else [])]
        tremula("run", "x.poplar_exec", *given, "--repeat", "2", "--output", "out",
                folder=own, POPLAR_ENGINE_OPTIONS=options)
        found[name], = set(own.glob("tf_report__*")) - {found[program]}
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


@pytest.fixture(scope="session")
def context(browser):
    """context(**options): the browser's context with these options. A page beside an open one
    takes half a second of processor time, one alone more than twice as much; the analyser keeps
    nothing between pages."""
    @functools.cache
    def make(**options):
        one = browser.new_context(viewport={"width": 1280, "height": 720}, **options)
        one.set_default_timeout(TIMEOUT)
        one.new_page()  # stays open
        return one
    return make


@pytest.fixture
def new_page(context):
    """new_page(): a new Page, which the end of the test closes."""
    pages = []

    def make(**options):
        pages.append(context(**options).new_page())
        return Page(pages[-1])
    yield make
    for page in pages:
        page.close()


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


@pytest.fixture
def tool(tmp_path):
    """The tool as the tests of the command line run it."""
    path = pathlib.Path(__file__).resolve().parents[1] / "tool/conftest.py"
    spec = importlib.util.spec_from_file_location("tremula_tool_conftest", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Tool(tmp_path)


@pytest.fixture(scope="session")
def viewer():
    """The path of viewer.html."""
    from tremula.tool import view
    text = view.page_text()
    path = ROOT / "build/release/lib/viewer.html"
    assert path.read_text(encoding="utf-8") == text
    return path
