"""The cells of the course in the site: the code, and what it showed when it was run.

`scripts/course.py outputs build/course` runs the notebooks and keeps what their cells show. Without
that folder (or where the notebook is younger than its outputs) the site has the code alone.
"""

import hashlib
import html
import json
import pathlib
import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUTS = ROOT / "build/course"


class Cell(SphinxDirective):
    """A block {code-cell} of MyST."""

    has_content = True
    optional_arguments = 1

    def run(self):
        text = "\n".join(self.content)
        code = nodes.literal_block(text, text, language="python")
        number = self.env.temp_data["cells"] = self.env.temp_data.get("cells", -1) + 1
        outputs = outputs_of(self.env.doc2path(self.env.docname))
        return [code, *(self.output(kind, shown) for kind, shown in
                        (outputs[number] if outputs else []))]

    def output(self, kind, shown):
        if kind == "text/plain":
            return nodes.literal_block(shown, shown, language="text", classes=["output"])
        if kind == "text/html":  # a whole page, such as the analyser: a file beside the site's
            shown = f'<iframe src="{page_of(self.env, shown)}" title="The analyser"></iframe>'
        return nodes.raw("", f'<div class="output">{shown}</div>', format="html")


def tell_how_to_run(app, docname, source):
    """Adds to a chapter how to run it: a reader of the site may come from a search."""
    if re.match(r"course/\d", docname):
        shown = outputs_of(app.srcdir / f"{docname}.md") is not None
        without = "" if shown else (" This site was built without them: `make docs COURSE=1` runs "
                                    "the cells and shows what they give.")
        source[0] = re.sub(
            r"^# .*\n", rf"""\g<0>
*This page is a notebook of [the course](README.md). In a copy of the repository `make course
OPEN=1` opens it in JupyterLab, and `.venv/bin/python scripts/course.py run {docname}.md` runs it.
Its pictures are drawn by [tiles.py](tiles.py).{without}*
""", source[0], count=1, flags=re.M)


def outputs_of(page):
    page = pathlib.Path(page)
    kept = OUTPUTS / f"{page.stem}.json"
    if not kept.is_file() or kept.stat().st_mtime < page.stat().st_mtime:
        return None
    return json.loads(kept.read_text(encoding="utf-8"))


def page_of(env, frame):
    """Puts the page of a frame's srcdoc into the site; its address from a page of the course."""
    text = html.unescape(frame.split('srcdoc="', 1)[1].split('"', 1)[0])
    name = f"analyser-{hashlib.sha256(text.encode()).hexdigest()[:12]}.html"
    folder = pathlib.Path(env.app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return f"../_static/{name}"


def setup(app):
    app.connect("source-read", tell_how_to_run)
    app.add_directive("code-cell", Cell)
    app.add_css_file("course.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
