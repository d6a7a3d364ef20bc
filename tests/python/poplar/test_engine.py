"""A plain Poplar program is compiled as users compile it, and runs without Python."""
import os
import pathlib
import signal
import subprocess
import sys

from tremula import core
from tremula.poplar import paths

SOURCES = pathlib.Path(__file__).parent / "sources"
PRINTED = """tiles 16
constant 1 2.5 4.5 7
written 1 3 6 10
streamed 6 0 0 1006
again 15 0 0 1015
transfers 6
row 1 10 -10
rows 2 and 0 20 -20 0 0
first rows 20 -20 10 -10
switched 200 -200
row: the remote buffer 'rows' has no row 3
shape: a Copy of a tensor of f32[1] to one of u32[1]
halves 1.5 -6 1
taken: the handle 'v' of a stream, a host read or a host write is taken
unconnected: the stream 'in' is not connected to the host
number: the engine has 1 programs, and none of number 1
handle: the engine has no stream 'w'
stream: the engine has no host read or host write 'in'
size: 'v' has 16 bytes, but the host's array 12
ring: a stream's buffer is smaller than one transfer
callback: no more
empty: an executable that is empty, or that an Engine has
none: this is no executable of Poplar's that Tremula saved
damaged: the executable is damaged or cut short
cut: the executable is damaged or cut short
"""
SAVED = """saved 1370 3700 7000 10000
stored 1370 3700 7000 10000
1
"""


def test_a_plain_program(tmp_path):
    environment = {**os.environ, "TREMULA_PYTHON": sys.executable,
                   "TREMULA_CODELET_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        ["bash", "-euc", f"source '{paths.FOLDER}/enable.sh'\n"
         f"g++ -std=c++11 -Wall -Wextra -Werror '{SOURCES}/plain.cpp' -o plain -lpoplar -lpoputil "
         f"-lpopops -lpoplin\nTREMULA_LIBRARY_DIR='{os.path.dirname(core.library_path())}' ./plain "
         f"'{SOURCES}/plain_codelets.cpp'"],
        cwd=tmp_path, text=True, capture_output=True, env=environment)
    assert (done.stdout, done.stderr) == (PRINTED + SAVED, "")
    # Another process runs the executable that was saved, without popc.
    environment.update(TREMULA_LIBRARY_DIR=os.path.dirname(core.library_path()), PATH="")
    done = subprocess.run([tmp_path / "plain", "saved", "saved"], cwd=tmp_path, text=True,
                          capture_output=True, env=environment)
    assert (done.stdout, done.stderr) == (SAVED, "")
    # Ctrl-C ends a run. A test run in the background ignores SIGINT, and its children with it.
    environment["PATH"] = os.environ["PATH"]
    with subprocess.Popen(["env", "--default-signal=INT", tmp_path / "plain", "x", "forever"],
                          stdout=subprocess.PIPE, text=True, env=environment) as endless:
        try:
            assert endless.stdout.readline() == "begun\n"
            endless.send_signal(signal.SIGINT)
            assert endless.wait(600) == -signal.SIGINT
        finally:
            endless.kill()
