"""Files in places where others may write, and files that cannot be written to their end."""

import io
import os
import random
import socket
import threading

import numpy as np
import pytest

from tremula import core
from tremula.tf.runtime.base import regular
from tremula.tf.runtime.launching import applications


def test_what_is_no_regular_file(tmp_path):
    fifo, link, folder, server = (str(tmp_path / name) for name in ("fifo", "link", "folder", "s"))
    os.mkfifo(fifo)
    os.mkdir(folder)
    os.symlink(tmp_path / "victim", link)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(server)
        for mode in ("rb", "ab"):
            for path in (fifo, folder, server, "/dev/null", *([link] if mode == "ab" else [])):
                with pytest.raises(regular.NotRegularError, match="not a regular file"):
                    open(path, mode, opener=regular.opener)
    assert not (tmp_path / "victim").exists()
    with open(tmp_path / "new", "ab", opener=regular.opener) as file:
        file.write(b"x")
    with open(tmp_path / "new", "rb", opener=regular.opener) as file:
        assert file.read() == b"x"


def test_replacing(tmp_path):
    path = tmp_path / "file"
    for error in (OSError, KeyboardInterrupt):
        path.write_text("before")
        with pytest.raises(error), regular.replacing(path) as file:
            file.write(b"half")
            raise error
        assert path.read_text() == "before" and os.listdir(tmp_path) == ["file"]
    with regular.replacing(os.fsencode(path)) as file:
        file.write(b"after")
    assert path.read_text() == "after" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(OSError, match="No space left"), regular.replacing("/dev/full") as file:
        file.write(b"x")
    assert not os.path.isfile("/dev/full")

    def write(text):
        for _ in range(50):
            with regular.replacing(path) as file:
                file.write(text)
                file.write(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in (b"aa", b"bb")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert path.read_text() in ("aaaa", "bbbb") and os.listdir(tmp_path) == ["file"]


def test_damaged_applications(tmp_path):
    """Cut short or changed: a ValueError, or the library's own error, and never another."""
    whole, path, generator = io.BytesIO(), tmp_path / "a.poplar_exec", random.Random(3)
    header = b'{"format": 1, "names": [], "frozen": [0]}'
    np.savez(whole, executable=np.zeros(40, np.uint8), header=np.frombuffer(header, np.uint8),
             input_0=np.ones(3))
    for _ in range(300):
        data = bytearray(whole.getvalue())
        for _ in range(generator.choice([0, 1, 5])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        if generator.random() < .3:
            del data[generator.randrange(len(data)):]
        path.write_bytes(data)
        with pytest.raises((ValueError, core.TremulaError)):
            applications.Application(str(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        applications.Application(str(path))
