"""Results of lowering, kept in the executable cache.

Lowering by TensorFlow's bridge takes longer than everything that comes after it. So with
--executable_cache_path=DIR its result is kept too, in DIR/lowered: a file a graph, named by a hash
of all that it depends on. It is looked for when a graph is built, which may be before the system is
configured; the executable, which depends on the configuration, is found later by a hash of the
module (src/tf/unit_build.c). src/tf/cache.h says how processes share the folder.
"""

import contextlib
import ctypes
import functools
import glob
import hashlib
import json
import os
import struct
import time

import tremula
from tremula import core, flags
from tremula.tf.inner import bridge, errors
from tremula.tf.runtime.base import recent
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.lowering import lowering

_DIGEST_BYTES = 16


def lower(source):
    """lowering.lower(source), from the cache where that has it. Raises its errors."""
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
    """The result of compute(), a dict for JSON and bytes, from the cache where that has a result
    for the same bytes in `parts`. Without a cache, the process keeps its latest results."""
    key = _key(parts)
    with _entry(key) as entry:
        if entry is None:
            return _remember_here(key, compute)
        found = _read(entry, False)
        if found is not None:
            plugin.log_info("CACHE", f"loaded the lowered graph {key}.hlo")
            return found
        if not plugin.library().trm_tf_cache_enter(entry):
            raise errors.error_class(errors.CANCELLED)(
                None, None, "Interrupted while another process lowered this graph.")
        found = _read(entry, True)
        if found is None:
            found = _timed(compute)
            _write(entry, found)
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


# ---- Keys ----

@functools.cache
def _environment():
    """What lowering depends on beside the graph: TensorFlow, this package, the bridge's flags."""
    import tensorflow as tf
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    library = os.stat(core.library_path())
    for one in (tf.version.VERSION, os.environ.get("XLA_FLAGS", ""),
                os.environ.get("TF_XLA_FLAGS", ""), f"{library.st_size} {library.st_mtime_ns}"):
        digest.update(one.encode() + b"\0")
    for name in _sources():
        with open(name, "rb") as file:
            digest.update(file.read())
    return digest.digest()


def _sources():
    """The files on which lowering depends: all of the runtime and of its door to TensorFlow."""
    top = os.path.join(os.path.dirname(tremula.__file__), "tf")
    return sorted(name for folder in ("inner", "runtime")
                  for name in glob.glob(os.path.join(top, folder, "**", "*.py"), recursive=True))


def _key(parts):
    digest = hashlib.blake2b(_environment(), digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


# ---- Files: length of the header, header, module ----

@contextlib.contextmanager
def _entry(key):
    """A file's trm_tf_cache_entry, or None without a cache."""
    try:
        path = flags.read()["executable_cache_path"]
    except (OSError, ValueError):
        path = None  # configuring the system says what is wrong
    entry = path and plugin.library().trm_tf_cache_open(
        os.fsencode(os.path.join(path, "lowered")), key.encode())
    try:
        yield entry or None
    finally:
        if entry:
            plugin.library().trm_tf_cache_close(entry)


def _read(entry, warns):
    """(header, module), or None if the file is missing or damaged. `warns`: log the damage."""
    size = ctypes.c_uint64()
    data = plugin.library().trm_tf_cache_read(entry, warns, ctypes.byref(size))
    if not data:
        return None
    try:
        rest = ctypes.string_at(data, size.value)
    finally:
        plugin.library().trm_tf_cache_free_data(data)
    length, = struct.unpack_from("<Q", rest)
    return json.loads(rest[8:8 + length]), rest[8 + length:]


def _write(entry, found):
    header, module = found
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + module
    plugin.library().trm_tf_cache_write(entry, data, len(data))
