"""The references of the site: pages that are made of the sources when the site is built.

They lie beside the doctrees and count as pages docs/reference/NAME; docs/reference.md lists them.
"""

import pathlib
import re
import textwrap

from docutils import nodes
from sphinx import addnodes, project
from sphinx.util.docutils import SphinxDirective

LIST = "docs/reference"
CODE = re.compile(r"(`[^`]*`)")
COLUMNS = re.compile(r"(\S.*?)(?:  +(\S.*))?$")
ITEM = re.compile(r"( *)(-|\d+\.) +")  # of a list
SPANS = re.compile(r"(`[^`\n]+`|\bdocs/[\w/]+\.md\b|\bipu(?:\.\w+)+)")


class Pages(project.Project):
    """The pages that Sphinx finds, and those that were made elsewhere: {name: path}."""

    made = {}

    def discover(self, *arguments, **keywords):
        super().discover(*arguments, **keywords)
        for name, path in self.made.items():
            self.docnames.add(name)
            self._docname_to_path[name] = path
            self._path_to_docname[path] = name
        return self.docnames


class Plain(SphinxDirective):
    """A docstring or a comment: paragraphs, blocks of code (indented), lists (lines that begin with
    "-" or "1."), and columns (a name, two spaces or more, its meaning). Backquotes mark code.
    Nothing else is markup."""

    has_content = True

    def run(self):
        parts = [part.splitlines() for part in re.split(r"\n\s*\n", "\n".join(self.content))
                 if part.strip()]
        joined = []  # a block of code goes on behind an empty line
        for part in parts:
            if joined and is_code(joined[-1]) and is_code(part):
                joined[-1] += ["", *part]
            else:
                joined.append(part)
        return [node for part in joined for node in self.parts(part)]

    def parts(self, lines):
        head, items = listed(lines)
        if head:
            yield self.part(head)
        if items:
            kind = nodes.bullet_list if items[0][0] == "-" else nodes.enumerated_list
            yield kind("", *(nodes.list_item("", nodes.paragraph("", "", *self.spans(text)))
                             for _, text in items))

    def part(self, lines):
        if is_code(lines):
            text = textwrap.dedent("\n".join(lines))
            return nodes.literal_block(text, text, language="none")
        rows = columns(lines)
        if rows is None:
            return nodes.paragraph("", "", *self.spans(" ".join(one.strip() for one in lines)))
        return nodes.definition_list("", *(nodes.definition_list_item(
            "", nodes.term("", "", nodes.literal(name, name)), nodes.definition(
                "", nodes.paragraph("", "", *self.spans(text)))) for name, text in rows))

    def spans(self, text):
        for one in SPANS.split(text):
            page = one[:-3]
            if one.startswith("`"):
                yield nodes.literal(one[1:-1], one[1:-1])
            elif one.startswith("docs/") and page in self.env.found_docs:
                yield self.link(one, "std", "doc", f"/{page}")
            elif one in self.env.app.shortcuts:
                yield self.link(one, "py", "obj", self.env.app.shortcuts[one])
            elif one:
                yield nodes.Text(one)

    def link(self, text, domain, kind, target):
        return addnodes.pending_xref(
            "", nodes.inline("", text), refdomain=domain, reftype=kind, refexplicit=True,
            reftarget=target, refdoc=self.env.docname, refwarn=True)


def is_code(lines):
    return all(line.startswith("  ") or not line for line in lines) and not listed(lines)[1]


def listed(lines):
    """(the lines before a list, [(mark, text)] of its items)."""
    begin = next((i for i, line in enumerate(lines) if ITEM.match(line)), None)
    if begin is None:
        return lines, []
    indent, items = ITEM.match(lines[begin])[1], []
    for line in lines[begin:]:
        item = ITEM.match(line)
        if item and item[1] == indent:
            items.append((item[2], line[item.end():]))
        elif line.startswith(f"{indent}  "):
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
        else:
            return lines, []
    return lines[:begin], items


def columns(lines):
    """[(name, meaning)] of a part in columns, or None."""
    if not any(re.match(r"\S.*?   *\S", line) for line in lines) or re.match(
            r"\s", lines[0]) or not re.match(r"\S+(, \S+)*(  +\S|$)", lines[0]):
        return None
    rows = []
    for line in lines:
        if line.startswith("    "):
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
        else:
            name, meaning = COLUMNS.match(line).groups()
            if meaning is None and not re.match(r"\S+(, \S+)*,?$", name):
                return None
            if rows and rows[-1][0].endswith(","):  # its names go on here
                name = f"{rows.pop()[0]} {name}"
            rows.append([name, meaning or ""])
    return rows


def add_pages(app):
    """Makes the pages, and lets Sphinx know them; not of another source than this repository."""
    app.references, app.shortcuts = {}, {}  # group -> (name, subject) of its pages
    if not (pathlib.Path(app.srcdir) / f"{LIST}.md").is_file():
        return
    import c_reference
    import python_reference
    app.shortcuts = python_reference.shortcuts()
    folder, paths = pathlib.Path(app.doctreedir) / "sources", {}
    folder.mkdir(parents=True, exist_ok=True)
    for group, source in ("C", c_reference), ("Python", python_reference):
        app.references[group] = []
        for name, text in source.pages():
            text = f":orphan:\n\n:doc:`References </{LIST}>` ‣ {group}\n\n{text}"
            path = folder / f"{name}.rst"
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
            paths[f"{LIST}/{name}"] = str(path)
            app.references[group].append((name, subject_of(text)))
    app.project.__class__, app.project.made = Pages, paths


def list_pages(app, docname, source):
    """A list of links: a toctree of so many pages would make each page's sidebar slow."""
    if docname == LIST:
        for group, rows in app.references.items():
            table = [f"| {{doc}}`{name} <reference/{name}>` | {subject} |"
                     for name, subject in rows]
            source[0] += "\n".join([f"\n## {group}\n", "| page | subject |", "|---|---|", *table,
                                    ""])


def subject_of(text):
    """The first sentence of a page, as Markdown."""
    first = re.search(r"\.\. plain::\n\n((?:   .*\n)+)", text)
    sentence = re.split(r"\.(?:\s|$)|:\s*$", " ".join(first[1].split()) if first else "")[0]
    return "".join(one.replace("|", r"\|") if one.startswith("`") else
                   re.sub(r"([\\*_|<\[])", r"\\\1", one) for one in CODE.split(sentence))


def setup(app):
    app.add_directive("plain", Plain)
    app.connect("builder-inited", add_pages)
    app.connect("source-read", list_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
