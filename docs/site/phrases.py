"""The search for phrases: gives the page of results every section's text, and static/phrases.js.

A page that was opened from a folder may not read others, so the texts are a script.
"""

import json
import pathlib

from docutils import nodes


def sections(document):
    """(id, heading, text) of each section, without those inside."""
    for section in document.findall(nodes.section):
        heading = section.next_node(nodes.title)
        text = " ".join(child.astext() for child in section.children
                        if not isinstance(child, (nodes.section, nodes.title, nodes.raw)))
        yield section["ids"][0], heading.astext() if heading else "", " ".join(text.split())


def add_scripts(app, pagename, templatename, context, doctree):
    if pagename == "search":
        app.add_js_file("texts.js")
        app.add_js_file("phrases.js")


def write_texts(app, error):
    if error is None:
        rows = [(page, app.env.titles[page].astext(), *section)
                for page in sorted(app.env.found_docs)
                for section in sections(app.env.get_doctree(page))]
        (pathlib.Path(app.outdir) / "_static/texts.js").write_text(
            f"const TEXTS = {json.dumps(rows)};\n", encoding="utf-8")


def setup(app):
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
