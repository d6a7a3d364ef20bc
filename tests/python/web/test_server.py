"""tremula view: a page and the files of its profiles on the loopback, for who knows the address."""

import http.client
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse

import pytest

import built
from analyser import environment, tremula
from tremula.tool import view


@pytest.fixture
def server(profiles):
    one = view._Server([profiles["plain"], profiles["changed"]], 0)
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def test_only_its_page_and_files(server, profiles):
    page = f"/{server.secret}/"
    answer, data = ask(server, page)
    assert answer.status == 200 and b"connect-src 'self'" in data
    answer, data = ask(server, f"{page}1/profile.pop")
    assert answer.status == 200 and data == (profiles["changed"] / "profile.pop").read_bytes()
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    for path in ("/", "/favicon.ico", f"{page}../../etc/passwd", f"{page}2/profile.pop",
                 f"{page}0/../1/profile.pop", f"{page}0/program.hlo", f"/{'a' * 22}/",
                 f"{page}%2e%2e/x"):
        assert ask(server, path)[0].status == 404, path


def test_other_hosts_and_methods_are_refused(server):
    page = f"/{server.secret}/"
    for host in ("example.org", f"example.org:{server.server_port}", "127.0.0.1", ""):
        assert ask(server, page, Host=host)[0].status == 403
    assert ask(server, page, Host=f"localhost:{server.server_port}")[0].status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(server, page, method)[0].status == 501


@pytest.mark.parametrize("asked, first, last", [
    ("bytes=0-15", 0, 16), ("bytes=100-", 100, None), ("bytes=-10", -10, None),
    ("bytes=5-5", 5, 6), ("bytes=0-99999999", 0, None)])
def test_a_range_of_a_file_is_served(server, profiles, asked, first, last):
    whole = (profiles["plain"] / "profile.pop").read_bytes()
    answer, data = ask(server, f"/{server.secret}/0/profile.pop", Range=asked)
    assert answer.status == 206 and data == whole[first:last]
    begin = first if first >= 0 else len(whole) + first
    assert answer.getheader("Content-Range") == \
        f"bytes {begin}-{begin + len(data) - 1}/{len(whole)}"


def test_ranges_that_are_wrong(server):
    path = f"/{server.secret}/0/profile.pop"
    assert ask(server, path, Range="bytes=99999999-")[0].status == 416
    assert ask(server, path, Range="lines=1-2")[0].status == 200


def test_command_and_browser(profiles, new_page):
    # A test run in the background may ignore SIGINT, and its children with it.
    process = subprocess.Popen(["env", "--default-signal=INT", built.program("tremula"), "view",
                                str(profiles["plain"])], text=True,
                               stdout=subprocess.PIPE, env=environment(), start_new_session=True)
    try:
        line = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", line)[0]
        page = new_page().open(url)
        assert page.value("num_ipus") == 1
        hosts = {urllib.parse.urlsplit(one).netloc for one in page.requests}
        assert hosts <= {urllib.parse.urlsplit(url).netloc, ""}
        assert not page.faults
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=600)


def test_open_without_a_browser(profiles):
    process = subprocess.Popen([built.program("tremula"), "view", str(profiles["plain"]), "--open"],
                               text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               env=environment(BROWSER="false %s", PATH="", DISPLAY=""),
                               start_new_session=True)
    try:
        assert "no browser could be opened" in process.stderr.readline()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=600)


def test_a_profile_that_cannot_be_read_at_all(profiles, tmp_path):
    for name, size in (("empty", 0), ("short", 5000)):
        folder = shutil.copytree(profiles["plain"], tmp_path / name)
        os.truncate(folder / "profile.pop", size)
        for arguments in (["view", folder], ["report", folder, "--html", tmp_path / "x.html"]):
            done = tremula(*arguments, check=False)
            assert done.returncode == 1, arguments
            assert f"{folder}/profile.pop cannot be read" in done.stderr
            assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.html").exists()


def test_mistakes_of_the_command_line_are_sentences(tmp_path, profiles):
    plain = str(profiles["plain"])
    for arguments, code, text in (
            (["view"], 2, "name one or two profiles"),
            (["view", plain, "--port", "x"], 2, "--port wants a number from 1 to 65535, not 'x'"),
            (["view", str(tmp_path)], 1, "no profile.pop"),
            (["view", "missing"], 1, "there is no profile missing"),
            (["report", plain, "--html"], 2, "--html wants a value"),
            (["report", plain, "--html", "x", "--json"], 2, "--json or --html, not both"),
            (["report", plain, "--with-source"], 2, "--with-source is for --html"),
            (["report", str(tmp_path), "--html", str(tmp_path / "x")], 1, "no profile.pop"),
            (["report", plain, "--html", str(tmp_path / "no/x")], 1, "cannot write")):
        done = tremula(*arguments, check=False)
        assert done.returncode == code and text in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "ssh -L" in tremula("view", "--help").stdout


def test_a_page_takes_little_room(profiles, tmp_path):
    out = tmp_path / "page.html"
    tremula("report", profiles["pipeline"], "--html", out)
    assert out.stat().st_size < 2_000_000
    text = out.read_text(encoding="utf-8")
    assert "connect-src 'none'" in text and text.count("data-file=") == 6
