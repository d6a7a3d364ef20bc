"""What lowering gave, kept in the executable cache.

Lowering by TensorFlow's bridge takes longer than everything that comes after it. So with
--executable_cache_path=DIR its result is kept too, in DIR/lowered: a file a graph, named by a hash
of all that it depends on. It is looked for when a graph is built, which may be before the system is
configured; the executable, which depends on the configuration, is found later by a hash of the
module (src/tf/build.c). Several processes may use a folder at once. Whatever is wrong with a file
or the folder costs a warning and the lowering, never the program.
"""

import fcntl
import functools
import glob
import hashlib
import json
import logging
import os
import struct
import time

import tremula
from tremula import flags
from tremula.tf.inner import bridge
from tremula.tf.runtime import lowering, plugin, recent, regular

LOG = logging.getLogger("tremula")

_MAGIC = b"TRMLOWR1"
_DIGEST_BYTES = 16
_POLL_SECONDS = .05
_MOST_SECONDS = 600  # that another process is waited for


def lower(source):
    """lowering.lower(source), or what it gave another time. Raises what it raises."""
    def compute():
        try:
            lowered = lowering.lower(source)
        except bridge.LoweringError as error:
            if not bridge.wants_constant(error):
                raise
            failed.append(error)
            return {"late": [str(error), error.said]}, b""
        return {"updates": lowered.updates, "shapes": lowered.shapes}, lowered.module

    failed = []
    header, module = remember([source.serialize()], compute)
    if "late" in header:
        raise failed[0] if failed else bridge.LoweringError(*header["late"])
    return lowering.Lowered(module, header["updates"], header["shapes"])


def remember(parts, compute):
    """What compute() gives, a dict that JSON can hold and bytes, or what it gave when the bytes in
    `parts` were the same. Without a cache it is computed."""
    folder = _folder()
    if folder is None:
        return _remember_here(_key(parts), compute)
    path = os.path.join(folder, _key(parts) + ".hlo")
    found = _read(path)
    if found is not None:
        plugin.log_info("CACHE", f"loaded the lowered graph {path}")
        return found
    with _Locked(path) as locked:
        found = _read(path)
        if found is None:
            found = _timed(compute)
            _write(path, found, locked.held)
    return found


# What this process has lowered lately: estimators build the same graphs again and again.
_recent = recent.Recent(16)


def _remember_here(key, compute):
    found = _recent.get(key)
    if found is None:
        found = _timed(compute)
        _recent.put(key, found)
    else:
        plugin.log_info("CACHE", "the graph has been lowered before")
    return found


def _timed(compute):
    start = time.monotonic()
    found = compute()
    plugin.log_info("LOWERING", f"lowered a graph in {time.monotonic() - start:.2f} s")
    return found


def _folder():
    try:
        path = flags.read()["executable_cache_path"]
    except (OSError, ValueError):
        return None  # configuring the system says what is wrong
    if not path:
        return None
    folder = os.path.join(path, "lowered")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        _warn(f"The executable cache cannot make the folder {folder}: {error}")
        return None
    return folder


@functools.cache
def _warn(text):
    LOG.warning("%s", text)


# ---- Keys ----

@functools.cache
def _environment():
    """What lowering depends on beside the graph: TensorFlow, this package, the bridge's flags."""
    import tensorflow as tf
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for one in (tf.version.VERSION, os.environ.get("XLA_FLAGS", ""),
                os.environ.get("TF_XLA_FLAGS", "")):
        digest.update(one.encode() + b"\0")
    for name in _sources():
        with open(name, "rb") as file:
            digest.update(file.read())
    return digest.digest()


def _sources():
    """The files that have a part in lowering: all of the runtime and of its door to TensorFlow."""
    top = os.path.join(os.path.dirname(tremula.__file__), "tf")
    return sorted(name for folder in ("inner", "runtime")
                  for name in glob.glob(os.path.join(top, folder, "**", "*.py"), recursive=True))


def _key(parts):
    digest = hashlib.blake2b(_environment(), digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


# ---- Files: magic, digest of the rest, length of the header, header, module ----

def _read(path):
    """(header, module), or None for what is not there or not sound."""
    try:
        with open(path, "rb", opener=regular.opener) as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(f"The file {path} of the executable cache cannot be read: {error}")
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    rest = memoryview(data)[start:]
    if data[:len(_MAGIC)] != _MAGIC or len(rest) < 8 or (
            hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() != data[len(_MAGIC):start]):
        _warn(f"The file {path} of the executable cache cannot be used and is made again: it is "
              "damaged, or not Tremula's.")
        return None
    size, = struct.unpack("<Q", rest[:8])
    return json.loads(bytes(rest[8:8 + size])), bytes(rest[8 + size:])


def _write(path, found, is_locked):
    header, module = found
    text = json.dumps(header).encode()
    rest = struct.pack("<Q", len(text)) + text + module
    data = _MAGIC + hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() + rest
    # With the lock the name is ours, so what a killed process has left is written over.
    unfinished = path + (".part" if is_locked else f".part.{os.getpid()}")
    try:
        regular.remove(unfinished)
        with open(unfinished, "xb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except BaseException as error:  # Ctrl-C too leaves no half
        regular.remove(unfinished)
        if not isinstance(error, OSError):
            raise
        _warn(f"The executable cache could not write {path}: {error}")


class _Locked:
    """While it is entered, no other process lowers the same graph. `held` is False where that
    cannot be had, as in a folder that cannot be written: then it is merely lowered twice."""

    def __init__(self, path):
        self._path = path + ".lock"
        self._file = None

    @property
    def held(self):
        return self._file is not None

    def __enter__(self):
        end = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < end:
            try:
                file = open(self._path, "ab", opener=regular.opener)
            except regular.NotRegularError as error:
                _warn(f"The executable cache lowers without a lock: {error}")
                return self
            except OSError:
                return self
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                time.sleep(_POLL_SECONDS)
                continue
            except OSError:  # a file system without locks
                file.close()
                return self
            if self._is_current(file):
                self._file = file
                return self
            file.close()
        _warn(f"Another process has been lowering for {_MOST_SECONDS} s (stopped?): {self._path}")
        return self

    def _is_current(self, file):
        """Whether it still has its name: the last owner removes it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
        except OSError:
            return False

    def __exit__(self, *_):
        if self._file is None:
            return
        try:
            os.unlink(self._path)
        except OSError:
            pass
        self._file.close()
