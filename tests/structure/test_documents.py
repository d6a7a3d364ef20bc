"""Documents and comments cite files and sections that exist; prose has at most 100 columns."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/**/*.md",
                                  "bench/**/*.md", "course/*.md", "src/*.md", "src/host/*.md",
                                  "src/ipu/*.md", "src/tf/*.md")
             for path in sorted(ROOT.glob(pattern))]
FOLDERS = "src|include|tools|python|tests|docs|bench|scripts|cmake|data|examples"
SOURCE_FOLDERS = ("src", "include", "tools", "python", "bench", "scripts", "cmake", "tests/c")
SOURCES = [path for folder in SOURCE_FOLDERS
           for pattern in ("*.c", "*.h", "*.def", "*.py", "*.proto", "*.sh", "*.cmake")
           for path in sorted((ROOT / folder).rglob(pattern))]
COLUMNS = 100


def _names(document):
    return str(document.relative_to(ROOT))


def _headings(page):
    """The headings of a page outside of code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return re.findall(r"^#+ (.*)$", text, flags=re.M)


def _anchor(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=_names)
def test_links_lead_to_files_and_headings(document):
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        page = document.parent / target if target else document
        if not page.exists():
            missing.append(link)
        elif anchor and anchor not in map(_anchor, _headings(page)):
            missing.append(link)
    assert not missing


def test_find_package_asks_for_the_present_version():
    header = (ROOT / "include/tremula/tremula.h").read_text()
    version = re.search(r'#define TRM_VERSION_STRING "(\d+\.\d+)', header)[1]
    asked = re.findall(r"find_package\(tremula ([\d.]+)", (ROOT / "docs/c_library.md").read_text())
    assert set(asked) == {version}


def test_the_changelog_has_the_present_version_and_leads_to_the_others():
    header = (ROOT / "include/tremula/tremula.h").read_text()
    version = re.search(r'#define TRM_VERSION_STRING "(\d+\.\d+\.\d+)', header)[1]
    text = (ROOT / "CHANGELOG.md").read_text()
    (section,) = [line for line in text.splitlines() if line.startswith("## ")]
    assert section.endswith("(not released)") or section.split()[1] == version
    pages = {f"docs/changes/{path.name}" for path in (ROOT / "docs/changes").iterdir()}
    assert pages == set(re.findall(r"\((docs/changes/[^)]+)\)", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_names)
def test_files_in_backquotes_exist(document):
    cited = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text())
    assert not [path for path in cited if not (ROOT / path).exists()]


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").glob("**/*.md")]
    pages = [str(page) for page in pages if str(page) != "README.md"]
    assert not [page for page in pages if f"({page})" not in index]


def _wide_lines(text):
    """Lines of prose beyond the limit: tables, code blocks and generated blocks may be wider."""
    wide, fenced, generated, above = [], False, False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"<!-- .*(begin|end) -->", line):
            generated = "begin" in line
        elif line.lstrip().startswith("```"):
            fenced = not fenced
        elif not (fenced or generated) and len(line) > COLUMNS:
            is_code = line.startswith("    ") and (not above.strip() or above.startswith("    "))
            if not line.startswith("|") and not is_code:
                wide.append(number)
        above = line
    return wide


@pytest.mark.parametrize("document", DOCUMENTS, ids=_names)
def test_prose_has_at_most_100_columns(document):
    assert not _wide_lines(document.read_text())


def test_wide_prose_is_found():
    wide = "word " * 21
    text = f"| {wide} |\n{wide}\n\n    {wide}\n```\n{wide}\n```\n- {wide}\n"
    assert _wide_lines(text) == [2, 8]


def _flat(text):
    """A source text with its comments unwrapped: a citation may go over the end of a line."""
    return re.sub(r"\n[ \t]*(?:\*(?!/)|//|#|\")?[ \t]*", " ", text)


def _missing(text):
    """Files, pages and sections that a source text cites and that do not exist."""
    text = _flat(text)
    cited = re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./-]*\.(?:md|c|h|def|py|proto|json|sh))\b",
                       text)
    missing = [path for path in cited if not (ROOT / path).exists()]
    pages = re.findall(r"(?<![\w/.<])([a-z_]+\.md)\b", text)
    missing += [page for page in pages if not (ROOT / "docs" / page).exists()]
    for page, section in re.findall(r"(docs/[\w/]+\.md), \"([^\"]+)\"", text):
        headings = _headings(ROOT / page) if (ROOT / page).exists() else []
        if not any(heading.startswith(section) for heading in headings):
            missing.append(f'{page}, "{section}"')
    return missing


def test_files_that_build_cite_what_exists():
    paths = [ROOT / name for name in (".ci/run", "CMakeLists.txt", "Makefile", "pyproject.toml")]
    missing = {_names(path): _missing(path.read_text()) for path in paths}
    assert not {path: names for path, names in missing.items() if names}


def test_every_example_is_in_its_index():
    folder = ROOT / "examples"
    index = (folder / "README.md").read_text()
    programs = [str(path.relative_to(folder)) for path in folder.rglob("*.py")]
    assert not [program for program in programs if f"`{program}`" not in index]


@pytest.mark.parametrize("folder", SOURCE_FOLDERS)
def test_comments_cite_what_exists(folder):
    missing = {_names(path): _missing(path.read_text()) for path in SOURCES
               if ROOT / folder in path.parents}
    assert not {name: cited for name, cited in missing.items() if cited}


def test_missing_citations_are_found():
    text = ('/* See docs/nowhere.md, src/base/status.h, nothing.md and docs/cost_model.md,\n'
            ' * "No such part", docs/cost_model.md, "Reduce". */')
    assert _missing(text) == ["docs/nowhere.md", "nothing.md", 'docs/cost_model.md, "No such part"']
