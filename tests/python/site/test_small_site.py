"""A small site with the documentation's settings, in a browser, in each run of the tests: the
search finds words and phrases from a folder without a server, on a phone nothing is too wide,
axe-core finds nothing serious. test_site.py looks at the whole site."""
import shutil
import subprocess

import pytest
import test_site

ROOT = test_site.ROOT
browser = test_site.browser
PAGE = """# Memory

`IPUInfeedQueue` feeds a program. `trm_compile` may say that a tile is out of memory.

    a line of code that is wider than a phone is, which has to scroll by itself and not the page

```c
int main(void) { return 0; } /* a comment */
```

```python
class Model(object): "A text"  # 1
```

| option | what it does |
|---|---|
| `availableMemoryProportion` | `a_name_that_is_long_and_has_no_room.for_a_break_in_a_line_of_it` |
"""
pytestmark = pytest.mark.skipif(not test_site.PYTHON.exists(), reason="no .venv-docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small site")
    shutil.copytree(ROOT / "docs/site", folder / "docs/site")
    (folder / "include/tremula").mkdir(parents=True)
    shutil.copy(ROOT / "include/tremula/tremula.h", folder / "include/tremula")
    (folder / "docs/README.md").write_text(
        "# Index\n\n## You begin\n\n[memory](memory.md) [again](memory.md#memory)\n")
    (folder / "docs/memory.md").write_text(PAGE)
    done = subprocess.run([test_site.PYTHON, "-m", "sphinx", "-q", "-W", "-c", folder / "docs/site",
                           folder, folder / "site"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.mark.parametrize("words", ["IPUInfeedQueue", "trm_compile", "out of memory"])
def test_the_search_finds(site, browser, words):
    page = test_site.searched(site, browser, words)
    found = page.eval_on_selector_all("#search-results a", "all => all.map(one => one.href)")
    assert any("docs/memory.html" in one for one in found)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_in_both_schemes(site, browser, scheme):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.set_default_timeout(test_site.TIMEOUT)
    page.goto((site / "docs/memory.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    light = page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.slice(4))")
    assert (light > 128) == (scheme == "light")
    assert test_site.serious(page) == []
    page.set_viewport_size({"width": 1280, "height": 844})
    assert test_site.serious(page) == []
    page.close()
