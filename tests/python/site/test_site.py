"""The site of `make docs`: no warning, every link leads somewhere, and in a browser, from a folder
without a server, the search finds and a phone's width is enough."""
import html
import html.parser
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-docs/bin/python"
TIMEOUT = 600_000  # milliseconds: another program may use the machine
# What the first results of a search are, and pages that are among all.
IPU = "docs/reference/tensorflow.python.ipu"
SEARCHES = {
    "IPUInfeedQueue": [f"{IPU}.ipu_infeed_queue.html#{IPU.rpartition('/')[2]}.ipu_infeed_queue."
                       "IPUInfeedQueue", "docs/api.html"],
    "trm_compile": ["docs/reference/tremula.h.html#c.trm_compile", "docs/numbers.html"],
    "group_norm": [f"{IPU}.ops.normalization_ops.html#", "docs/ipu_ops.html"],
    "MPI": ["docs/distributed.html", "docs/poprun.html"],  # not ipu_compiler, which has it too
    "outfeed": ["docs/", "course/02_feeds_and_loops.html"],
    "custom op": ["course/09_custom_operator.html", "docs/custom_operators.html"],
    "out of memory": ["", "docs/flags.html"]}
AXE = ROOT / "build/web/node_modules/axe-core/axe.min.js"

pytestmark = [pytest.mark.long, pytest.mark.skipif(
    not PYTHON.exists(), reason="no .venv-docs: make docs makes it")]


def build(source, folder, *options):
    return subprocess.run([PYTHON, "-m", "sphinx", "-q", "-j", "auto", "-W", "--keep-going", "-c",
                           ROOT / "docs/site", *options, "-d", folder / "pages", source,
                           folder / "site"], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a site")
    done = build(ROOT, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


class Links(html.parser.HTMLParser):
    """What a page refers to, what it loads, and the ids that it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids.add(named.get("id"))
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        elif tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(named["href"])
        elif tag in ("img", "script") and named.get("src"):
            self.loads.append(named["src"])


def test_a_damaged_link_is_an_error(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# Index\n\n[one](other.md) [two](#no-such-part)\n")
    done = build(tmp_path, tmp_path, "-D", "include_patterns=docs/README.md")
    assert done.returncode != 0
    assert "other" in done.stderr and "no-such-part" in done.stderr


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Links(path) for path in sorted(site.rglob("*.html"))}
    assert {site / "index.html", site / "docs/README.html", site / "README.html",
            site / "docs/changes/0.1.0.html"} <= set(pages)
    wrong = []
    for path, page in pages.items():
        wrong += [(path, load) for load in page.loads if "://" in load]
        for link in [*page.links, *page.loads]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme:
                continue
            name = urllib.parse.unquote(parts.path)
            target = (path.parent / name).resolve() if name else path
            if not target.is_file():
                wrong.append((path, link))
            elif parts.fragment and target in pages and (
                    urllib.parse.unquote(parts.fragment) not in pages[target].ids):
                wrong.append((path, link))
    assert wrong == []


def test_options_and_programs_are_what_the_reader_types_and_opens(site):
    """No dash stands for "--", and the name of an example leads to it."""
    text = text_of(site / "docs/check.html")
    assert "--run also runs the script" in text and "--json prints" in text
    page = Links(site / "docs/keras.html")
    assert any(one.endswith("/keras_pipeline.py") for one in page.links)
    page = Links(site / "examples/README.html")
    assert any(one.endswith("/pipelining.py") for one in page.links)


def test_the_sidebar_has_the_groups_of_the_index(site):
    text = (site / "docs/README.html").read_text(encoding="utf-8")
    sections = [line[3:] for line in (ROOT / "docs/README.md").read_text().splitlines()
                if line.startswith("## ")]
    assert len(sections) > 3
    for one in sections:
        assert f'<span class="caption-text">{one}</span>' in text


def text_of(path):
    """A page's text without marks, its white space as single spaces."""
    text = re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8"))
    return " ".join(html.unescape(text).split())


def test_references_have_declarations_comments_and_docstrings(site):
    folder = site / "docs/reference"
    text = text_of(folder / "tremula.h.html")
    assert ("trm_status trm_compile( const trm_module *module, const trm_option *options, size_t "
            "num_options, trm_executable **out_executable, trm_error *error, )") in text
    assert "Compiles a module, which does not change and may be freed afterwards." in text
    assert "TRM_RESOURCE_EXHAUSTED = 8" in text
    assert "An infeed is a queue between a thread that pushes" in text  # before a "clang-format on"
    assert text.count("The engines of so many processes run the program together") == 1
    text = text_of(folder / "tensorflow.python.ipu.ops.slicing_ops.html")
    assert "sequence_slice" in text and "int32 vectors of one length, not 0" in text
    text = text_of(folder / "tensorflow.python.ipu.ops.pipelining_ops.html")
    assert "reduction_method: Any = GradientAccumulationReductionMethod.SUM" in text
    assert "pva.html" not in (folder / "tensorflow.python.ipu.ops.pipelining_ops.html").read_text()
    assert '<pre tabindex="0"><span></span>from tremula import testing\n\ndef test_port():\n' in (
        folder / "tremula.testing.html").read_text()
    everything = " ".join(text_of(path) for path in folder.glob("*.html"))
    assert "tremula.tf." not in everything
    assert "PoplarExecutableProto" not in everything  # docs/api.md: not yet


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if importlib.util.find_spec("playwright") is None or path is None:
        pytest.skip("no browser: make test-all installs chromium and playwright")
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=path, headless=True,
                                         args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


def searched(site, browser, words):
    """The page of a search, when its last result is there; nothing was reported as an error."""
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/README.html")
    page.fill("input.sidebar-search", words)
    page.press("input.sidebar-search", "Enter")
    page.wait_for_selector("#search-results ul.search li a")
    page.wait_for_function(
        "document.querySelector('#search-results .search-summary').textContent.includes('found')")
    assert faults == []
    return page


@pytest.mark.parametrize("words", SEARCHES)
def test_the_search_works_from_a_folder(site, browser, words):
    page = searched(site, browser, words)
    found = page.eval_on_selector_all("#search-results ul.search li a",
                                      "all => all.map(one => one.href)")
    first, *others = SEARCHES[words]
    assert first in found[0]
    for wanted in others:
        assert any(wanted in one for one in found), found
    page.close()


def test_a_phone_scrolls_in_one_direction(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(TIMEOUT)
    wide = []
    for path in sorted(set(site.rglob("*.html")) - {site / "index.html"}):
        page.goto(path.as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide.append((str(path.relative_to(site)), width))
    page.close()
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_readers_scheme(site, browser, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.goto((site / "docs/README.html").as_uri())
    light = page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.slice(4))")
    assert (light > 128) == (scheme == "light")
    page.close()


def test_the_search_finds_phrases(site, browser):
    """Sphinx's own drops "of" and knows no order."""
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    for words, wanted in (("out of memory", "course/05_it_does_not_fit.html#"),
                          ('"multiplied by a large factor"', None)):
        page.goto((site / "search.html").as_uri() + "?q=" + urllib.parse.quote(words))
        page.wait_for_selector(".phrases p")
        found = page.eval_on_selector_all(".phrases li", """all => all.map(one => [
            one.querySelector("a").href, one.querySelector(".part").textContent])""")
        assert found
        assert all(words.strip('"') in part.lower() for _, part in found)
        assert wanted is None or any(wanted in link for link, _ in found)
    page.goto((site / "search.html").as_uri() + "?q=memory+of+out")
    page.wait_for_selector(".phrases p")
    assert page.locator(".phrases li").count() == 0
    page.close()


def serious(page):
    """What axe-core finds serious in a page."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed (make test installs it)")
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], iframes: false})")
    return [(one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"][:300])
            for one in found["violations"] if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["docs/README", "docs/keras", "docs/flags", "search",
                                  "course/01_first_program", "course/04_reading_a_profile",
                                  "docs/reference", "docs/command_line",
                                  "docs/reference/tremula.h", "docs/reference/poplar.h",
                                  f"{IPU}.ops.nn_ops"])
def test_axe_finds_nothing_serious(site, browser, name, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.set_default_timeout(TIMEOUT)
    page.goto((site / f"{name}.html").as_uri() + ("?q=out+of+memory" if name == "search" else ""))
    assert serious(page) == []
    page.close()


def test_a_notebook_shows_what_its_cells_showed(tmp_path):
    """A picture, a text, and a page in a frame, which becomes a file of its own."""
    (tmp_path / "course").mkdir()
    (tmp_path / "docs/site").mkdir(parents=True)
    (tmp_path / "docs/README.md").write_text("# Index\n\n[1](../course/README.md)\n")
    (tmp_path / "course/README.md").write_text("# Course\n")
    (tmp_path / "course/tiles.py").write_text("# what draws the pictures\n")
    (tmp_path / "course/01_a.md").write_text(
        "# A\n\n```{code-cell} python\nx = 1\n```\n\n```{code-cell} python\nx\n```\n")
    shutil.copytree(ROOT / "docs/site", tmp_path / "docs/site", dirs_exist_ok=True)
    (tmp_path / "include/tremula").mkdir(parents=True)
    shutil.copy(ROOT / "include/tremula/tremula.h", tmp_path / "include/tremula")
    (tmp_path / "build/course").mkdir(parents=True)
    frame = '<iframe srcdoc="&lt;p&gt;a &amp;quot;page&amp;quot;&lt;/p&gt;"></iframe>'
    (tmp_path / "build/course/01_a.json").write_text(json.dumps([
        [["text/plain", "printed <b>\n"]],
        [["image/svg+xml", "<svg><title>t</title></svg>"], ["text/html", frame]]]))
    done = subprocess.run([PYTHON, "-m", "sphinx", "-q", "-W", "-c", tmp_path / "docs/site",
                           tmp_path, tmp_path / "out"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "out/course/01_a.html").read_text()
    assert "printed &lt;b&gt;" in text and "<svg><title>t</title></svg>" in text
    name = re.search(r'<iframe src="\.\./(_static/analyser-\w+\.html)"', text)[1]
    assert (tmp_path / "out" / name).read_text() == "<p>a &quot;page&quot;</p>"
