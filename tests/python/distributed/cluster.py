"""Starts the workers of a test: processes that run the same case, on virtual IPUs of their own."""

import contextlib
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys

import built
import interpreter

HERE = pathlib.Path(__file__).parent
WORKERS = 2
TIMEOUT = 200  # of an attempt; a case takes some 20 seconds on an idle machine
ATTEMPTS = 2


_PORTS = range(20000, 30000)  # which the system gives to nobody by itself


@contextlib.contextmanager
def addresses(count, host="127.0.0.1"):
    """`count` addresses that are free, and that no other test takes meanwhile."""
    with contextlib.ExitStack() as stack:
        found = []
        for port in itertools.islice(itertools.cycle(_PORTS), os.getpid() % len(_PORTS), None):
            if len(found) == count:
                break
            if _is_free(stack, port):
                found.append(f"{host}:{port}")
        yield found


def _is_free(stack, port):
    mark = stack.enter_context(socket.socket(socket.AF_UNIX))
    try:
        mark.bind(f"\0tremula-test-port-{port}")
        with socket.socket() as one:
            one.bind(("", port))
    except OSError:
        return False
    return True


def run(case, folder, clusters, around=((), ()), variables=({}, {})):
    """Runs a case on all workers. `clusters` are lists of the workers' addresses, `around` what
    their command lines begin with, `variables` of their environments. Returns the workers' (status,
    output, results)."""
    for attempt in range(ATTEMPTS):
        try:
            return _attempt(case, pathlib.Path(folder) / f"attempt{attempt}", clusters, around,
                            variables)
        except subprocess.TimeoutExpired:
            # Seen once: all workers wait in TensorFlow's own broadcast of the first variable.
            if attempt == ATTEMPTS - 1:
                raise
            print(f"{case} did not end within {TIMEOUT} seconds and is started again")


def _attempt(case, folder, clusters, around, variables):
    folder.mkdir()
    environment = {
        **os.environ, **built.variables(), "TREMULA_RUNTIME_DIR": str(folder / "ipus"),
        "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment.pop("TF_CONFIG", None)
    (folder / "ipus").mkdir()
    outputs = [folder / f"output_{i}.txt" for i in range(WORKERS)]
    processes = []
    for i in range(WORKERS):
        with open(outputs[i], "w") as file:
            options = {"env": {**environment, **variables[i]}, "stdout": file,
                       "stderr": subprocess.STDOUT}
            arguments = [str(HERE / case), str(i), json.dumps(clusters), str(folder)]
            processes.append(
                subprocess.Popen([*around[i], sys.executable, *arguments], **options)
                if around[i] else interpreter.Popen(arguments, **options))
    try:
        for one in processes:
            one.wait(TIMEOUT)
    finally:
        for one in processes:
            one.kill()
            one.wait()
    results = [folder / f"results_{i}.json" for i in range(WORKERS)]
    return [(one.returncode, output.read_text(errors="replace"),
             json.loads(result.read_text()) if result.exists() else {})
            for one, output, result in zip(processes, outputs, results)]
