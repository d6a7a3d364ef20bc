#!/usr/bin/env python3
"""Makes viewer.html, one file, of web/: the page, its style, its modules, and its worker.

    python scripts/inline_viewer.py web build/viewer.html

A page that is opened from disk cannot import modules or fetch a worker. So the modules are put into
one script in the order of their imports, each a function that gives its exports, and the worker
with its vendored libraries into a block that the page starts as a Blob. The Content-Security-Policy
allows these scripts by their sums, and nothing else.
"""

import argparse
import base64
import gzip
import hashlib
import pathlib
import re
import sys

_IMPORT = re.compile(r'^import\s+\{(?P<names>[^}]*)\}\s+from\s+"(?P<path>[^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const|let) +(?P<name>\w+))", re.M)
_VENDOR = ["sql-wasm-inline.js"]
_MOST_BYTES = 2_000_000


def _modules(entry, found, stack=()):
    """Texts of modules by path; a module comes after those that it imports."""
    if entry in found:
        return
    if entry in stack:
        sys.exit(f"{entry}: modules import each other in a circle")
    text = entry.read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        _modules((entry.parent / match["path"]).resolve(), found, (*stack, entry))
    found[entry] = text


def bundle(entry):
    """One script of a module and of all that it imports."""
    texts = {}
    _modules(entry.resolve(), texts)
    names = {path: f"module{i}" for i, path in enumerate(texts)}
    parts = []
    for path, text in texts.items():
        exports = [match["name"] for match in _EXPORT.finditer(text)]

        def replaced(match, path=path):
            source = (path.parent / match["path"]).resolve()
            wanted = [name.strip() for name in match["names"].split(",") if name.strip()]
            there = {found["name"] for found in _EXPORT.finditer(texts[source])}
            if not there.issuperset(wanted):
                sys.exit(f"{path}: {source.name} does not export {set(wanted) - there}")
            return f"const {{ {', '.join(wanted)} }} = {names[source]};\n"

        text = _EXPORT.sub(r"\1", _IMPORT.sub(replaced, text))
        if re.search(r"^(export|import)\b", text, re.M):
            sys.exit(f"{path}: an import or export of a form that this script does not know")
        parts.append(f"// {path.parent.name}/{path.name}\nconst {names[path]} = (() => {{\n{text}"
                     f"return {{ {', '.join(exports)} }};\n}})();\n")
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _sum(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def make(folder):
    """The text of viewer.html."""
    vendor = [(folder / "vendor" / name).read_text(encoding="utf-8") for name in _VENDOR]
    worker = "\n".join([*vendor, bundle(folder / "src/data/worker.js")])
    packed = base64.b64encode(gzip.compress(worker.encode(), 9, mtime=0)).decode()
    script = bundle(folder / "src/main.js")
    style = (folder / "style.css").read_text(encoding="utf-8")
    if "</script" in script or "</style" in style:
        sys.exit("a script or style holds text that would end it")
    policy = ("default-src 'none'; connect-src 'none'; img-src data: blob:; worker-src blob:; "
              f"script-src {_sum(script)} 'wasm-unsafe-eval'; style-src {_sum(style)}; "
              "base-uri 'none'; form-action 'none'")
    page = (folder / "index.html").read_text(encoding="utf-8")
    marks = {"POLICY": policy, "STYLE": style, "WORKER": packed, "SCRIPT": script}
    for mark, text in marks.items():
        if page.count(f"@{mark}@") != 1:
            sys.exit(f"index.html must have @{mark}@ once")
        page = page.replace(f"@{mark}@", text)
    if len(page.encode()) > _MOST_BYTES:
        sys.exit(f"viewer.html has {len(page.encode())} bytes; at most {_MOST_BYTES} are allowed")
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    page = make(arguments.folder)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.output.exists() or arguments.output.read_text(encoding="utf-8") != page:
        arguments.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
