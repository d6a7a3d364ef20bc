"""Runs programs in Python processes of their own that have imported TensorFlow already.

The import takes two seconds of processor time, and some hundred tests run a program. A server,
which has imported TensorFlow and nothing else, forks a process for each program. Programs share a
server if their environments agree in everything but VARYING: TensorFlow may read the rest when it
is imported. A test of the start of a process, or one that talks to the process, takes
subprocess.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

TIMEOUT = 600
VARYING = ("POPLAR_", "PVTI_", "PYTEST_", "TF_POPLAR_", "TREMULA_", "XLA_FLAGS")
MOST_SERVERS = 2  # each takes 250 MB

_servers = collections.OrderedDict()


def run(arguments, env=None, cwd=None, newline=None):
    """What subprocess.run([sys.executable, *arguments], env=env, cwd=cwd, text=True,
    capture_output=True) returns, for `-c TEXT`, `-m MODULE` and a script, each with arguments.
    `newline` is that of open()."""
    env = dict(os.environ if env is None else env)
    arguments = [str(one) for one in arguments]
    with tempfile.TemporaryFile() as request:
        request.write(json.dumps([arguments, env, str(cwd or os.getcwd())]).encode())
        request.seek(0)
        pipes = [os.pipe() for _ in range(2)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            texts = [pool.submit(_read, reader, newline) for reader, _ in pipes]
            server = _server(env)
            try:
                server.send([request.fileno(), *(writer for _, writer in pipes)])
            finally:
                for _, writer in pipes:
                    os.close(writer)
            status = server.receive()
    return subprocess.CompletedProcess([sys.executable, *arguments], status,
                                       *(text.result() for text in texts))


def _read(descriptor, newline):
    with open(descriptor, encoding="utf-8", errors="replace", newline=newline) as file:
        return file.read()


def _server(env):
    key = json.dumps(sorted(item for item in env.items() if not item[0].startswith(VARYING)))
    if key in _servers and _servers[key].is_stopped:
        del _servers[key]
    if key not in _servers:
        while len(_servers) >= MOST_SERVERS:
            _servers.popitem(last=False)[1].stop()
        _servers[key] = _Server(env)
    _servers.move_to_end(key)
    return _servers[key]


class _Server:
    def __init__(self, env):
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(TIMEOUT)
        start = (f"import sys; sys.path.insert(1, {str(pathlib.Path(__file__).parent)!r}); "
                 f"exec(__import__('interpreter').serve({other.fileno()}))")
        self._process = subprocess.Popen(
            [sys.executable, "-c", start], env=env, pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        other.close()

    def send(self, files):
        """Asks for a process, of the files (request, standard output, standard error)."""
        socket.send_fds(self._socket, [b"run"], files)

    def receive(self):
        """Its exit code, negative for a signal."""
        try:
            return int(self._socket.recv(16))
        except BaseException:
            self.stop()
            raise

    @property
    def is_stopped(self):
        return self._process.returncode is not None

    def stop(self):
        self._socket.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# ---- In the server --------------------------------------------------------------------------

def serve(descriptor):
    """Forks for each request. Returns in the child only: the code to run as __main__."""
    import gc

    import tensorflow  # noqa: F401
    gc.freeze()  # a child does not walk what TensorFlow made, when it collects and ends
    server = socket.socket(fileno=descriptor)
    while True:
        _, files, _, _ = socket.recv_fds(server, 16, 3)
        if not files:
            raise SystemExit  # the tests are over
        child = os.fork()
        if child == 0:
            server.close()
            return _become(*files)
        for one in files:
            os.close(one)
        server.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(request, *outputs):
    """Makes this process what `python ARGUMENTS` would be; returns the code of the program."""
    for number, file in enumerate(outputs, 1):
        os.dup2(file, number)
        os.close(file)
    with open(request) as file:
        (first, *rest), env, folder = json.load(file)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    main = sys.modules["__main__"].__dict__
    main.pop("sys")
    del sys.modules["interpreter"], sys.path[1]
    if first == "-c":
        sys.argv = [first, *rest[1:]]
        return compile(rest[0], "<string>", "exec")
    if first == "-m":
        sys.path[0] = folder
        sys.argv = ["-m", *rest[1:]]
        return compile(f"__import__('runpy')._run_module_as_main({rest[0]!r})", "<string>", "exec")
    sys.path[0] = os.path.dirname(os.path.realpath(first))
    sys.argv = [first, *rest]
    main["__file__"] = first
    with open(first, "rb") as file:
        return compile(file.read(), first, "exec")
