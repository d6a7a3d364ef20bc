"""The site of `make docs`: the pages of the index in docs/README.md, where they are.

The sources' root is the repository's, so that links mean the same here and there. A link to a file
that is no page leads to a copy of the file. The index gives the sidebar: a section, a group.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = "docs/README"

project = "Tremula"
PARAMETERS = re.compile(r"<dl>\s*((?:<dd>(?:(?!<d[dl]>).)*</dd>\s*)+)</dl>", re.S)
version = re.search(r'TRM_VERSION_STRING "(.*)"',
                    (ROOT / "include/tremula/tremula.h").read_text()).group(1)
root_doc = INDEX
sys.path.insert(0, str(ROOT / "docs/site"))
extensions = ["myst_parser", "notebooks", "phrases", "programs", "references"]
html_static_path = [str(ROOT / "docs/site/static")]
# Pages that others cite, and that the index does not list.
CITED = ["bench/*.md", "bench/notes/*.md", "src/README.md", "src/*/README.md"]
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "course/*.md",
                    "examples/README.md", *CITED]
# Folders without pages, so that the search for pages does not walk through environments.
exclude_patterns = [one.name for one in ROOT.iterdir() if one.is_dir() and
                    one.name not in ("docs", "bench", "src", "course", "examples")]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*"), ("c:.*", ".*")]  # types of Python, C and TensorFlow
add_module_names = False  # the page's heading names the module
python_maximum_signature_line_length = c_maximum_signature_line_length = 80
myst_heading_anchors = 6
smartquotes = False  # a reader copies options (--run) and texts ("") from prose

pygments_style = "vs"  # whose colours have, but for two, the contrast that small letters need
html_theme = "furo"
html_title = f"Tremula {version}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
# A page that was opened from a folder may not read the other pages for their summaries.
html_show_search_summary = False
html_search_scorer = str(ROOT / "docs/site/scorer.js")


def groups(text):
    """(section, its pages) of the index; the first has the project's README."""
    head, *sections = re.split(r"^## ", text, flags=re.M)
    seen = set()
    for section in [f"Begin\n{head}", *sections]:
        title, _, body = section.partition("\n")
        pages = []
        for link in re.findall(r"\]\(([^:)#]+)\.md\)", body):
            page = link[3:] if link.startswith("../") else f"docs/{link}"
            if page not in seen:
                seen.add(page)
                pages.append(f"/{page}")
            if page == "course/README":
                pages += [f"/course/{one.stem}" for one in sorted(
                    (ROOT / "course").glob("[0-9]*.md"))]
        yield title, pages
    yield "Measurements and towers", sorted(
        f"/{path.relative_to(ROOT).with_suffix('')}" for one in CITED for path in ROOT.glob(one))


def add_sidebar(app, docname, source):
    """Gives the index one hidden toctree for each of its sections."""
    if docname == INDEX:
        for title, pages in list(groups(source[0])):
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "",
                                    *pages, "```", ""])


def add_front_door(app, error):
    """index.html leads to the index."""
    if error is None:
        target = f"{INDEX}.html"
        (pathlib.Path(app.outdir) / "index.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html_title}</title>\n'
            f'<meta http-equiv="refresh" content="0; url={target}">\n'
            f'<a href="{target}">The documentation</a></html>\n')


def mend_access(app, pagename, templatename, context, doctree):
    """What axe-core finds in the pages: headings without a level, code and tables that no key
    scrolls, and parameters that are a list of definitions without terms."""
    context["furo_navigation_tree"] = context.get("furo_navigation_tree", "").replace(
        'class="caption" role="heading"', 'class="caption" role="heading" aria-level="2"')
    if "body" in context:
        body = context["body"].replace("<pre>", '<pre tabindex="0">').replace(
            '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
        context["body"] = PARAMETERS.sub(
            lambda one: '<span class="parameters">' + one[1].replace("<dd>", "<span>").replace(
                "</dd>", "</span>") + "</span>", body)


def setup(app):
    app.connect("html-page-context", mend_access, priority=900)  # after Furo
    app.connect("source-read", add_sidebar)
    app.connect("build-finished", add_front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
