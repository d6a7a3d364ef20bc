"""The analyser: one page with a profile inside, a server of the loopback, a cell of a notebook.

    python -m tremula.tool.view page DIR... [FILE.pvti ...] --output OUT.html [--with-source]
    python -m tremula.tool.view serve DIR... [FILE.pvti ...] [--port N] [--open]
    python -m tremula.tool.view plan ANSWER.json --output OUT.html

`tremula report --html`, `tremula view` and `tremula plan --html` start these. All three show web/
(docs/analyser.md), the last one with plans instead of profiles.
"""

import argparse
import base64
import contextlib
import gzip
import html
import http.server
import json
import pathlib
import re
import secrets
import sqlite3
import sys
import urllib.parse
import webbrowser

from tremula import core, tool

FILES = ("profile.pop", "vars.capnp", "debug.cbor", "archive.a", "framework.json",
         "serialized_graph.hlo")
_MOST_SOURCE = 4_000_000


def page_text():
    """viewer.html, which the build makes. Raises Complaint."""
    for folder in core.library_folders():
        path = pathlib.Path(folder) / "viewer.html"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise tool.Complaint("viewer.html was not found: build Tremula (cmake --build --preset "
                         "release), or set TREMULA_LIBRARY_DIR to the folder that has it")


def _with_blocks(page, blocks):
    """The page with blocks behind its script, which starts the worker before they are read."""
    head, mark, rest = page.rpartition("</body>")
    return "".join([head, *blocks, mark, rest])


def profile_files(path):
    """The files of a profile by name; `path` is a folder or its profile.pop. Raises Complaint."""
    folder = pathlib.Path(path)
    if folder.name == "profile.pop" and folder.is_file():
        folder = folder.parent
    if not folder.is_dir():
        raise tool.Complaint(f"there is no profile {path}")
    found = {name: folder / name for name in FILES if (folder / name).is_file()}
    if "profile.pop" not in found:
        raise tool.Complaint(f"there is no profile.pop in {path}; a folder tf_report__... has one")
    _rows(found["profile.pop"], "SELECT key FROM meta")
    if "debug.cbor" not in found:  # one for the whole process, in its working directory
        above = folder.resolve().parent / "debug.cbor"
        if above.is_file():
            found["debug.cbor"] = above
    return found


def _are_instances(folders):
    """Whether the profiles are of different instances of one program (web/src/views/instances.js).
    """
    found = []
    for folder in folders:
        meta = dict(_rows(profile_files(folder)["profile.pop"], "SELECT key, value FROM meta"))
        found.append((meta.get("module"), meta.get("num_instances"), meta.get("instance")))
    return len({one[:2] for one in found}) == 1 and len(set(found)) == len(found)


def split(given):
    """The profiles and the timelines (.pvti) among paths: those given, and those that a profile's
    folder has, or the folder above from the same process. Raises Complaint."""
    folders = [path for path in given if not str(path).endswith(".pvti")]
    timelines = [pathlib.Path(path) for path in given if str(path).endswith(".pvti")]
    if len(folders) > 2 and not _are_instances(folders):
        raise tool.Complaint(f"name one or two profiles, or those of instances of one program, not "
                             f"{len(folders)} others")
    for path in timelines:
        if not path.is_file():
            raise tool.Complaint(f"there is no timeline {path}")
    for folder in folders:
        own = profile_files(folder)["profile.pop"].resolve().parent
        timelines += sorted(own.glob("*.pvti"))
        process = re.fullmatch(r"tf_report__.*__(\d+)", own.name)
        if process:
            timelines += sorted(own.parent.glob(f"*_{process[1]}.pvti"))
    return folders, list({path.resolve(): path for path in timelines}.values())


def _block(attributes, data):
    text = " ".join(f'{name}="{html.escape(str(value))}"' for name, value in attributes.items())
    if not attributes.keys().isdisjoint({"data-file", "data-timeline", "data-plan"}):
        data = gzip.compress(data, 6, mtime=0)
    packed = base64.b64encode(data).decode()
    return f'<script type="application/octet-stream" {text}>{packed}</script>\n'


def _rows(pop, sql):
    with contextlib.closing(sqlite3.connect(f"file:{pop}?mode=ro", uri=True)) as database:
        try:
            return database.execute(sql).fetchall()
        except sqlite3.Error as error:
            raise tool.Complaint(f"{pop} cannot be read: {error}") from None


def _source_files(pop):
    """The Python files that a profile names and this machine has."""
    for (name,) in _rows(pop, "SELECT DISTINCT file FROM sources WHERE file <> ''"):
        path = pathlib.Path(str(name))
        if path.suffix == ".py" and path.is_file() and path.stat().st_size <= _MOST_SOURCE:
            yield str(name), path.read_bytes()


def _read(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise tool.Complaint(f"cannot read {path}: {error.strerror}") from None


def make_page(given, with_source=False):
    """The text of a page with the profiles and timelines inside. Raises Complaint."""
    folders, timelines = split(given)
    blocks = [_block({"data-timeline": path.name}, _read(path)) for path in timelines]
    for number, folder in enumerate(folders):
        files = profile_files(folder)
        name = files["profile.pop"].resolve().parent.name
        for file, path in files.items():
            attributes = {"data-report": number, "data-folder": name, "data-file": file}
            blocks.append(_block(attributes, _read(path)))
        for source, text in _source_files(files["profile.pop"]) if with_source else ():
            blocks.append(_block({"data-source": source}, text))
    return _with_blocks(page_text(), blocks)


def make_plan_page(answer):
    """The text of a page with plans inside: the bytes of `tremula plan --json`."""
    return _with_blocks(page_text(), [_block({"data-plan": "answer"}, answer)])


# ---- The server --------------------------------------------------------------------------------


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, given, port):
        folders, timelines = split(given)
        super().__init__(("127.0.0.1", port), _Handler)
        self.secret = secrets.token_urlsafe(16)
        self.files = {}
        reports = []
        for number, folder in enumerate(folders):
            files = profile_files(folder)
            listed = []
            for name, path in files.items():
                url = f"/{self.secret}/{number}/{name}"
                self.files[url] = path
                listed.append({"name": name, "url": url, "size": path.stat().st_size})
            reports.append({"name": files["profile.pop"].resolve().parent.name, "modified": 0,
                            "files": listed})
        if timelines:
            listed = []
            for number, path in enumerate(timelines):
                url = f"/{self.secret}/timeline/{number}.pvti"
                self.files[url] = path
                listed.append({"name": path.name, "url": url, "size": path.stat().st_size})
            reports.append({"name": "", "modified": 0, "timeline": True, "files": listed})
        served = json.dumps(reports).replace("<", "\\u003c")
        page = page_text().replace("connect-src 'none'", "connect-src 'self'", 1)
        block = f'<script type="application/json" id="served">{served}</script>\n'
        self.page = _with_blocks(page, [block]).encode()
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/{self.secret}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    """Gives the page and the files of its profiles to who knows the random path."""

    protocol_version = "HTTP/1.1"
    server_version = "tremula"
    sys_version = ""

    def log_message(self, *arguments):
        pass

    def _refuse(self, code):
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def do_GET(self):  # noqa: N802 (http.server calls it)
        # A page of another site that has a name for 127.0.0.1 sends its own Host.
        if self.headers.get("Host") not in self.server.hosts:
            return self._refuse(403)
        path = urllib.parse.urlsplit(self.path).path
        if path == f"/{self.server.secret}/":
            return self._send(self.server.page, "text/html; charset=utf-8")
        file = self.server.files.get(path)
        if file is None:
            return self._refuse(404)
        try:
            data = file.read_bytes()
        except OSError:
            return self._refuse(404)
        return self._send(data, "application/octet-stream")

    def _send(self, data, kind):
        begin, end = 0, len(data)
        asked = self.headers.get("Range")
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked or "")
        if match and any(match.groups()):
            first, last = match.groups()
            begin = int(first) if first else max(0, len(data) - int(last))
            end = min(len(data), int(last) + 1) if first and last else len(data)
            if begin >= end:
                return self._refuse(416)
        self.send_response(206 if match else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Accept-Ranges", "bytes")
        if match:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data[begin:end])
        return None


def _serve(arguments):
    try:
        server = _Server(arguments.folders, arguments.port)
    except OSError as error:
        raise tool.Complaint(f"port {arguments.port} cannot be had: {error.strerror}; without "
                             "--port a free one is taken") from None
    print(f"The analyser is at {server.url}\nCtrl-C ends it.", flush=True)
    if arguments.open and not webbrowser.open(server.url):
        print("tremula: no browser could be opened: open the address yourself", file=sys.stderr)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    server.server_close()


# ---- Notebooks ---------------------------------------------------------------------------------


class Report:
    """A profile that a notebook shows in place: `tremula.report("tf_report__...")`."""

    def __init__(self, folder, other=None, height=760):
        self._folders = [folder] if other is None else [folder, other]
        self._height = int(height)
        for one in self._folders:
            profile_files(one)

    def __repr__(self):
        return f"tremula.report({', '.join(repr(str(one)) for one in self._folders)})"

    def _repr_html_(self):
        # ASCII, so that the page is the same in a cell of any encoding: its scripts have sums.
        page = html.escape(make_page(self._folders)).encode("ascii", "xmlcharrefreplace").decode()
        return ('<iframe title="Tremula analyser" sandbox="allow-scripts allow-downloads" '
                f'style="width:100%;height:{self._height}px;border:1px solid #8888" '
                f'srcdoc="{page}"></iframe>')

    def save(self, path):
        """Writes the same page to a file."""
        tool.write(path, make_page(self._folders).encode())


# ---- The command line --------------------------------------------------------------------------


def main(given=None):
    parser = argparse.ArgumentParser(prog="python -m tremula.tool.view")
    commands = parser.add_subparsers(dest="command", required=True)
    page = commands.add_parser("page")
    page.add_argument("--output", required=True)
    page.add_argument("--with-source", action="store_true")
    serve = commands.add_parser("serve")
    serve.add_argument("--port", type=int, default=0)
    serve.add_argument("--open", action="store_true")
    for command in (page, serve):
        command.add_argument("folders", nargs="+")
    plan = commands.add_parser("plan")
    plan.add_argument("--output", required=True)
    plan.add_argument("answer", type=pathlib.Path)
    arguments = parser.parse_args(given)
    try:
        if arguments.command == "page":
            text = make_page(arguments.folders, arguments.with_source)
            tool.write(arguments.output, text.encode())
        elif arguments.command == "plan":
            tool.write(arguments.output, make_plan_page(_read(arguments.answer)).encode())
        else:
            _serve(arguments)
    except tool.Complaint as complaint:
        print("tremula:", " ".join(str(complaint).split()), file=sys.stderr)
        sys.exit(tool.COMPLAINED)


if __name__ == "__main__":
    main()
