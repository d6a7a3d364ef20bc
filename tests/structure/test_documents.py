"""What the documents refer to exists: linked files, and files of the repository in backquotes."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/**/*.md",
                                  "bench/**/*.md")
             for path in sorted(ROOT.glob(pattern))]
FOLDERS = "src|include|tools|python|tests|docs|bench|scripts|cmake|data|examples"


def _names(document):
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_names)
def test_links_lead_to_files(document):
    text = document.read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)
               if "://" not in target]
    missing = [target for target in targets
               if target and not (document.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=_names)
def test_files_in_backquotes_exist(document):
    cited = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", document.read_text())
    assert not [path for path in cited if not (ROOT / path).exists()]


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").glob("**/*.md")]
    pages = [str(page) for page in pages if str(page) != "README.md"]
    assert not [page for page in pages if f"({page})" not in index]
