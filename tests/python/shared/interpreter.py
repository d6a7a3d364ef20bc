"""Runs programs in Python processes of their own that have imported TensorFlow already.

The import takes two seconds of processor time, and some hundred tests run a program. A server,
which has imported TensorFlow and nothing else, forks a process for each program. Programs share a
server if their environments agree in everything but VARYING: TensorFlow may read the rest when it
is imported. run() waits for a program; Popen talks to one meanwhile. A test of the start of a
process takes subprocess. Programs that start a Python by its path (TREMULA_PYTHON) get the path of
stand_in().
"""

import atexit
import collections
import concurrent.futures
import ctypes
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

TIMEOUT = 600
# OMP_*: libgomp reads it, which comes with libtremula. TF_CPP_VMODULE: Tremula reads it late, and
# no test looks at what TensorFlow makes of it.
VARYING = ("FAILING_", "OMPI_", "OMP_", "OPAL_", "PMIX_", "POPDIST_", "POPLAR_", "POPLIBS_",
           "PRTE_", "PVTI_", "PYTEST_", "PYTHONPATH", "TF_CONFIG", "TF_CPP_VMODULE",
           "TF_POPLAR_", "TREMULA_", "XLA_FLAGS")
MOST_SERVERS = 2  # each takes 250 MB

_servers = collections.OrderedDict()
_lock = threading.Lock()  # for _servers; a server runs one program at a time


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
            try:
                status = _fork(env, [request.fileno(), *(writer for _, writer in pipes)])
            finally:
                for _, writer in pipes:
                    os.close(writer)
    return subprocess.CompletedProcess([sys.executable, *arguments], status,
                                       *(text.result() for text in texts))


def _read(descriptor, newline):
    with open(descriptor, encoding="utf-8", errors="replace", newline=newline) as file:
        return file.read()


def _fork(env, files):
    """Runs a program of the files (request, standard output, standard error); its exit code."""
    with _lock:
        server = _server(env)
        server.send(files)
        return server.receive()


PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def _start(env, files):
    """The pid of a program of the files (request, standard streams), which is our child: the
    server's child forks it and ends, and then the kernel gives it to us."""
    prctl = ctypes.CDLL(None).prctl
    with _lock:
        server = _server(env)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            server.send(files)
            return server.receive()
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Popen(subprocess.Popen):
    """A program that runs meanwhile, as subprocess.Popen([sys.executable, *arguments]) starts it,
    with its streams, env and cwd. It is a child of this process: it has a pid and can be killed."""

    def __init__(self, arguments, env=None, stdin=subprocess.DEVNULL, **options):
        env = dict(os.environ if env is None else env)
        super().__init__([sys.executable, *map(str, arguments)], env=env, stdin=stdin, **options)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env,
                       startupinfo, creationflags, shell, *rest):
        pipes = rest[:6]  # (its end, ours) of standard input, (ours, its end) of the others
        streams = [one if one != -1 else i for i, one in enumerate((pipes[0], pipes[3], pipes[5]))]
        try:
            with tempfile.TemporaryFile() as request:
                request.write(json.dumps([args[1:], env, str(cwd or os.getcwd())]).encode())
                request.seek(0)
                self.pid = _start(env, [request.fileno(), *streams])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)


def _server(env):
    env = {"TF_CPP_MIN_LOG_LEVEL": "2", **env}
    # A .pth file may import Tremula from the first folder of PYTHONPATH when the server starts.
    key = json.dumps([env.get("PYTHONPATH", "").split(os.pathsep)[0],
                      sorted(item for item in env.items() if not item[0].startswith(VARYING))])
    if key in _servers and _servers[key].is_stopped:
        del _servers[key]
    if key not in _servers:
        while len(_servers) >= MOST_SERVERS:
            _servers.popitem(last=False)[1].stop()
        _servers[key] = _Server(env)
    _servers.move_to_end(key)
    return _servers[key]


# What stands in for a Python: sends its arguments, environment and streams, and ends as told.
# The shell starts the Python, because the path after #! cannot have a space.
STAND_IN = """#!/bin/sh
'exec' {python} '-IS' "$0" "$@"
import json, os, signal, socket, sys
request = os.memfd_create("request")
os.write(request, json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode())
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"run"], [request, 0, 1, 2])
    status = int(server.recv(16))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@functools.cache
def stand_in():
    """The path of a program that does what this Python does, as run() does it. A program that is
    running in run() must not start it."""
    folder = tempfile.mkdtemp(prefix="tremula-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(folder, "socket"))
    listener.listen()
    threading.Thread(target=_serve_stand_ins, args=[listener], daemon=True).start()
    path = os.path.join(folder, "python")
    with open(path, "w") as file:
        file.write(STAND_IN.format(python=repr(sys.executable), address=listener.getsockname()))
    os.chmod(path, 0o755)
    return path


def _serve_stand_ins(listener):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve_stand_in, args=[client], daemon=True).start()


def _serve_stand_in(client):
    """For one stand-in; several may run at once and talk to each other."""
    with client:
        _, files, _, _ = socket.recv_fds(client, 16, 4)
        try:
            with open(os.dup(files[0])) as file:
                file.seek(0)
                env = json.load(file)[1]
            os.lseek(files[0], 0, os.SEEK_SET)
            pid = _start(env, files)
        finally:
            for one in files:
                os.close(one)
        client.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


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
        """Asks for a process, of the files (request, standard output, standard error), or with
        standard input before these for one that it does not wait for."""
        socket.send_fds(self._socket, [b"run"], files)

    def receive(self):
        """Its exit code, negative for a signal; or the pid of one that goes on."""
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
    with open("/proc/self/maps") as maps:
        assert "libgomp" not in maps.read(), "OMP_* would do nothing"
    gc.freeze()  # a child does not walk what TensorFlow made, when it collects and ends
    server = socket.socket(fileno=descriptor)
    while True:
        _, files, _, _ = socket.recv_fds(server, 16, 4)
        if not files:
            raise SystemExit  # the tests are over
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            if len(files) == 4:
                if other := os.fork():
                    os.write(writer, str(other).encode())
                    os._exit(0)
                os.setsid()  # the server may be stopped meanwhile
            for one in (server.fileno(), reader, writer):
                os.close(one)
            server.detach()
            return _become(*files)
        for one in (writer, *files):
            os.close(one)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(reader, "rb") as answer:
            server.send(answer.read() or str(status).encode())


def _folders(env):
    """What PYTHONPATH adds to sys.path."""
    path = env.get("PYTHONPATH")
    return [os.path.abspath(one) for one in path.split(os.pathsep)] if path else []


def _become(request, *streams):
    """Makes this process what `python ARGUMENTS` would be; returns the code of the program."""
    for number, file in enumerate(streams, 3 - len(streams)):
        os.dup2(file, number)
        os.close(file)
    with open(request) as file:
        (first, *rest), env, folder = json.load(file)
    del sys.modules["interpreter"], sys.path[1]
    old = _folders(os.environ)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path[1:] = [*_folders(env), *(one for one in sys.path[1:] if one not in old)]
    main = sys.modules["__main__"].__dict__
    main.pop("sys")
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
