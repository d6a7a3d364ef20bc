"""The processes that were started together ("instances"), and collectives of numpy arrays among
them: tremula/group.h from Python. Needs no TensorFlow.

    from tremula import group
    group.join()                                  # waits until all have come; needs MPI
    total = group.all_reduce("losses", np.float32([0.5]))

A process that nobody has started with others is instance 0 of 1, and needs no MPI.
"""

import atexit
import contextlib
import ctypes
import functools
import os
import sys
from typing import NamedTuple

import numpy as np

from tremula import core

_KINDS = {"all_reduce": 0, "all_gather": 1, "broadcast": 2, "barrier": 3}
SUM, MEAN = 0, 1


class Place(NamedTuple):
    """Which instance this process is, of how many; and the same among those of its host."""
    rank: int
    size: int
    local_rank: int
    local_size: int
    launcher: str  # "Open MPI", "MPICH", "PMIx", "Slurm"; "": nobody


class _Place(ctypes.Structure):  # trm_group_place
    _fields_ = [("rank", ctypes.c_uint32), ("size", ctypes.c_uint32),
                ("local_rank", ctypes.c_uint32), ("local_size", ctypes.c_uint32),
                ("launcher", ctypes.c_char_p)]


class Traffic(NamedTuple):
    """What this process has sent to others since its start."""
    bytes_sent: int
    messages_sent: int


class _Traffic(ctypes.Structure):  # trm_group_traffic
    _fields_ = [(name, ctypes.c_uint64) for name in Traffic._fields]


class _Settings(ctypes.Structure):  # trm_group_settings
    _fields_ = [("size", ctypes.c_size_t), ("library", ctypes.c_char_p),
                ("folder", ctypes.c_char_p), ("stall_seconds", ctypes.c_double)]


class _Request(ctypes.Structure):  # trm_collective_request
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("op", ctypes.c_int),
                ("root", ctypes.c_uint32), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int),
                ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("input", ctypes.c_void_p), ("participants", ctypes.POINTER(ctypes.c_uint32)),
                ("num_participants", ctypes.c_uint32)]


class _Result(ctypes.Structure):  # trm_collective_result
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("rank", ctypes.c_int32),
                ("dims", ctypes.c_int64 * 16)]


@functools.cache
def _library():
    library = core.library()
    error = ctypes.POINTER(core._Error)
    for name, result, arguments in (
            ("trm_group_get_place", None, [ctypes.POINTER(_Place)]),
            ("trm_group_get_traffic", None, [ctypes.POINTER(_Traffic)]),
            ("trm_group_join", ctypes.c_int, [ctypes.POINTER(_Settings), error]),
            ("trm_group_leave", None, []),
            ("trm_group_is_joined", ctypes.c_bool, []),
            ("trm_group_has_threads", ctypes.c_bool, []),
            ("trm_group_describe", ctypes.c_char_p,
             [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]),
            ("trm_group_collect", ctypes.c_int,
             [ctypes.POINTER(_Request), ctypes.POINTER(_Result), error]),
            ("trm_collective_result_free", None, [ctypes.POINTER(_Result)]),
            ("trm_inventory_load", ctypes.c_int,
             [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), error]),
            ("trm_inventory_num_ids", ctypes.c_uint32, [ctypes.c_void_p]),
            ("trm_inventory_members", ctypes.c_void_p,
             [ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]),
            ("trm_inventory_release", None, [ctypes.c_void_p])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _call(name, *arguments):
    _library()
    core._call(name, *arguments)


# ---- Where this process stands ----

def place():
    """The Place of this process. Loads no MPI."""
    found = _Place()
    _library().trm_group_get_place(ctypes.byref(found))
    return Place(found.rank, found.size, found.local_rank, found.local_size,
                 (found.launcher or b"").decode())


def describe(rank):
    """The instance `rank`, for messages: "instance 1 (host vm, pid 4711)"."""
    buffer = ctypes.create_string_buffer(512)
    return _library().trm_group_describe(rank, buffer, len(buffer)).decode()


def join():
    """Meets the other instances, and waits until all have come. Once is enough; a process without
    others does nothing. Raises FailedPreconditionError where there is no MPI, or another one than
    the launcher's."""
    settings = _Settings(ctypes.sizeof(_Settings), None,
                         os.fsencode(os.path.join(sys.prefix, "lib")), 0.0)
    _call("trm_group_join", ctypes.byref(settings))
    if place().size > 1:
        atexit.register(_library().trm_group_leave)  # while Python is still there


def leave():
    """Waits until all instances leave. They may join again."""
    atexit.unregister(_library().trm_group_leave)
    _library().trm_group_leave()


def is_joined():
    """Whether this process has joined, and not left since."""
    return _library().trm_group_is_joined()


def has_threads():
    """Whether MPI lets several threads call it."""
    return _library().trm_group_has_threads()


def traffic():
    """The Traffic of this process, of collectives and of programs over several instances."""
    found = _Traffic()
    _library().trm_group_get_traffic(ctypes.byref(found))
    return Traffic(found.bytes_sent, found.messages_sent)


# ---- Who takes part ----

_state = {"participants": None}
_watchers = []


def watch_participants(function):
    """Calls function(ranks or None) now, and whenever other instances take part."""
    _watchers.append(function)
    function(_state["participants"])


def participants():
    """The ranks that take part in collectives, in rising order; None: all."""
    return _state["participants"]


def set_participants(ranks):
    """From now on collectives of this process are among these instances; None: among all."""
    ranks = None if ranks is None else tuple(sorted(ranks))
    _state["participants"] = ranks
    for function in _watchers:
        function(ranks)


@contextlib.contextmanager
def among(ranks):
    """A block in which collectives are among these instances."""
    before = _state["participants"]
    set_participants(ranks)
    try:
        yield
    finally:
        set_participants(before)


# ---- Collectives ----

def all_reduce(name, array, op=SUM):
    """The sum (SUM), or MEAN, of all instances' arrays, in the order of ranks."""
    return _collect("all_reduce", name, array, op=op)


def all_gather(name, array):
    """All instances' arrays one after the other, along dimension 0."""
    return _collect("all_gather", name, array)


def broadcast(name, array, root=0):
    """The array of the instance `root`; others give one of the same type and shape."""
    return _collect("broadcast", name, array, root=root)


def barrier(name):
    """Waits until all instances have come."""
    _collect("barrier", name, np.zeros((), np.int8))


def _collect(kind, name, array, op=SUM, root=0):
    array = np.require(array, requirements="C")
    if array.dtype.name not in core._NUMBERS:
        raise core.InvalidArgumentError(f"the collective {name!r} cannot take {array.dtype}")
    dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    ranks = _state["participants"]
    chosen = None if ranks is None else (ctypes.c_uint32 * len(ranks))(*ranks)
    request = _Request(
        ctypes.sizeof(_Request), _KINDS[kind], op, root, name.encode(),
        core._NUMBERS[array.dtype.name], array.ndim, dims, array.ctypes.data, chosen,
        0 if ranks is None else len(ranks))
    result = _Result()
    _call("trm_group_collect", ctypes.byref(request), ctypes.byref(result))
    try:
        data = ctypes.string_at(result.data, result.bytes) if result.bytes else b""
        shape = result.dims[:result.rank]
    finally:
        _library().trm_collective_result_free(ctypes.byref(result))
    if kind == "barrier":
        return None
    return np.frombuffer(bytearray(data), array.dtype).reshape(shape)


# ---- IPUs ----

def device_id(num_ipus, number):
    """The `number`-th id, in rising order, that stands for so many IPUs in the inventory; None:
    there is none."""
    library = _library()
    inventory = ctypes.c_void_p()
    _call("trm_inventory_load", None, ctypes.byref(inventory))
    count = ctypes.c_uint32()
    try:
        for one in range(library.trm_inventory_num_ids(inventory)):
            library.trm_inventory_members(inventory, one, ctypes.byref(count))
            number -= count.value == num_ipus
            if number < 0:
                return one
    finally:
        library.trm_inventory_release(inventory)
    return None
