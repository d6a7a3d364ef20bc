#!/usr/bin/env python3
"""Makes viewer.html, one file, of web/: the page, its style, its modules, and its worker.

    python scripts/inline_viewer.py web build/viewer.html

A page that is opened from disk cannot import modules or fetch a worker. So the modules are put into
one script in the order of their imports, and the worker with its vendored libraries into a block
that the page starts as a Blob. All modules share one scope: a name that two of them declare is an
error. The Content-Security-Policy allows these scripts by their sums, and nothing else.
"""

import argparse
import base64
import gzip
import hashlib
import pathlib
import re
import sys

_IMPORT = re.compile(r'^import\s+(?:[^"\';]+?\s+from\s+)?"(?P<path>[^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export (?=(async |)(function|class|const|let)\b)", re.M)
_DECLARED = re.compile(r"^(?:async )?(?:function\*?|class|const|let|var) +(?P<name>\w+)", re.M)
_IMPORTED = re.compile(r"^import\s+\{(?P<names>[^}]*)\}", re.M)
_VENDOR = ["sql-wasm-inline.js"]
_MOST_BYTES = 2_000_000


def _modules(entry, found, stack=()):
    """Modules by path, those that others import first."""
    if entry in found:
        return
    if entry in stack:
        sys.exit(f"{entry}: modules import each other in a circle")
    text = entry.read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        _modules((entry.parent / match["path"]).resolve(), found, (*stack, entry))
    for match in _IMPORTED.finditer(text):
        if " as " in match["names"]:
            sys.exit(f"{entry}: a name is imported under another one, which one scope cannot have")
    found[entry] = _EXPORT.sub("", _IMPORT.sub("", text))


def bundle(entry):
    """The script that a module and all that it imports make."""
    modules = {}
    _modules(entry.resolve(), modules)
    owners = {}
    for path, text in modules.items():
        if re.search(r"^(export|import)\b", text, re.M):
            sys.exit(f"{path}: an import or export of a form that this script does not know")
        for match in _DECLARED.finditer(text):
            other = owners.setdefault(match["name"], path)
            if other != path:
                sys.exit(f"{path}: '{match['name']}' is declared in {other} too")
    parts = [f"// {path.parent.name}/{path.name}\n{text}" for path, text in modules.items()]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


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
    for mark, text in (("POLICY", policy), ("STYLE", style), ("WORKER", packed), ("SCRIPT", script)):
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
