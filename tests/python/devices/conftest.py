"""Virtual IPUs across processes, and the gc-* tools.

Every test has locks of its own. A holder is a process that is attached to IPUs and does nothing
else; it needs no TensorFlow.
"""

import os
import subprocess
import sys
import textwrap

import built
import interpreter
import pytest


_HOLDER = """
import ctypes, sys

class Request(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("num_ipus", ctypes.c_uint32),
                ("ids", ctypes.POINTER(ctypes.c_uint32)), ("num_ids", ctypes.c_size_t),
                ("timeout_ms", ctypes.c_uint32), ("poll_ms", ctypes.c_uint32),
                ("reserve_for", ctypes.c_char_p)]

library = ctypes.CDLL(sys.argv[1] + "/libtremula.so")
device = ctypes.c_void_p()
error = ctypes.create_string_buffer(8192)
request = Request(name=b"/device:IPU:0", num_ipus=int(sys.argv[2]))
status = library.trm_device_attach(None, ctypes.byref(request), ctypes.byref(device), error)
print("attached" if status == 0 else error.raw[4:].split(b"\\0")[0].decode(), flush=True)
sys.stdin.read()  # until it is killed, or whoever started it is gone
"""


@pytest.fixture
def environment(tmp_path):
    """The environment of everything that a test starts."""
    return {**os.environ, **built.variables(), "TREMULA_RUNTIME_DIR": str(tmp_path),
            "TREMULA_INVENTORY": "mk2-16", "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture
def tool(environment):
    """Runs a tool; returns the completed process."""
    def run(name, *arguments, **variables):
        return subprocess.run([built.program(name), *map(str, arguments)], text=True,
                              capture_output=True, env={**environment, **variables}, timeout=600,
                              check=False)
    return run


@pytest.fixture
def hold(environment):
    """Starts a process that holds `count` IPUs; returns it."""
    started = []

    def start(count, **variables):
        command = [sys.executable, "-c", _HOLDER, environment["TREMULA_LIBRARY_DIR"], str(count)]
        process = subprocess.Popen(command, env={**environment, **variables}, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        answer = process.stdout.readline().strip()
        assert answer == "attached", answer
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def script(environment):
    """Starts a TensorFlow 1 program on `count` IPUs; returns the process. What it is given runs
    after the configuration, with `run()` to compile and run a small program."""
    prologue = """
        import tremula._finder, sys
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = int(sys.argv[1])
        config.device_connection.type = ipu.config.DeviceConnectionType[sys.argv[2]]
        config.device_connection.version = "ipu2"
        config.configure_ipu_system()

        def run(compute=lambda x: x + 1.0, value=(1.0, 2.0)):
            with tf.Graph().as_default(), tf.Session() as session:
                with ipu.scopes.ipu_scope("/device:IPU:0"):
                    x = tf.placeholder(tf.float32, [2])
                    result, = ipu.ipu_compiler.compile(compute, [x])
                return session.run(result, {x: value}).tolist()
    """

    def start(count, connection, text, **variables):
        return interpreter.Popen(
            ["-c", textwrap.dedent(prologue) + textwrap.dedent(text), count, connection],
            env={**environment, **variables}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return start
