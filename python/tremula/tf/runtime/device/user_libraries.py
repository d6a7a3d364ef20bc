"""Users' shared libraries with ops in them: what include/tremula/user_op.h and poplar.h say of
them."""

import ctypes
import dataclasses
import hashlib
import os

from tremula.tf.inner import errors

_API = 1  # TRM_USER_OP_API
_HEADER = "trm_poplar_header"  # a symbol of libraries that were compiled with Tremula's headers
_SOURCES = ".cpp", ".cc", ".cxx", ".c", ".C"
_HEADER_VERSION = 1  # TRM_POPLAR_VERSION
_LEVELS = range(1, 6)  # custom_op_api_level of SDK 1.2 to 3.4

_COMPILE_AGAIN = (
    "{path} was not compiled with Tremula's headers of Poplar. Compile it again with them "
    "(docs/custom_operators.md), or write a C function with the signature of tremula/user_op.h "
    "(TRM_USER_OP({op}), docs/user_ops.md).")


class _Metadata(ctypes.Structure):
    """trm_user_op_metadata."""
    _fields_ = [("size", ctypes.c_uint32), ("num_inputs", ctypes.c_uint32),
                ("is_stateless", ctypes.c_bool), ("is_hashable", ctypes.c_bool),
                ("is_elementwise", ctypes.c_bool), ("allocating_inputs", ctypes.c_uint64),
                ("replica_identical_outputs", ctypes.c_uint64)]


class _Failure(ctypes.Structure):
    """trm_poplar_failure."""
    _fields_ = [("thrown", ctypes.c_uint32), ("type", ctypes.c_char * 124),
                ("what", ctypes.c_char * 2048)]


class _UserCall(ctypes.Structure):
    """trm_poplar_user_call."""
    _fields_ = [("level", ctypes.c_int32), ("api", ctypes.c_void_p), ("function", ctypes.c_void_p),
                ("graph", ctypes.c_void_p), ("attributes", ctypes.c_char_p),
                ("attributes_size", ctypes.c_uint64), ("debug_prefix", ctypes.c_char_p),
                ("failure", _Failure)]


class _MetadataCall(ctypes.Structure):
    """trm_poplar_metadata_call."""
    _fields_ = [("user", _UserCall), ("num_inputs", ctypes.c_uint32),
                *((name, ctypes.c_uint32) for name in (
                    "max_indices", "num_allocating", "num_replica_identical", "num_aliases")),
                *((name, ctypes.POINTER(ctypes.c_int64)) for name in (
                    "allocating", "replica_identical", "alias_inputs", "alias_outputs")),
                *((name, ctypes.c_bool) for name in (
                    "is_elementwise", "is_stateless", "is_hashable"))]


@dataclasses.dataclass
class Said:
    """What a library says of an op."""
    is_stateless: bool = False
    is_hashable: bool = False
    is_elementwise: bool = False
    is_poplar: bool = False  # C++ against Poplar's headers: docs/custom_operators.md


def absolute(path):
    """The path of a library. If no such file exists, the loader searches for the name."""
    path = os.fspath(path)
    return os.path.abspath(path) if os.path.exists(path) else path


def metadata(path, op, num_inputs, callback):
    """What the library says of an op: a Said.

    `callback`: a host callback with the original's signature will do too.

    Raises NotFoundError for what is not there, InternalError for a Poplar library of an unknown API
    level, FailedPreconditionError for a library that was compiled for another version.
    """
    library = _open(path, op)
    if hasattr(library, f"{op}_tremula"):
        return _c_metadata(library, path, op, num_inputs)
    level = _level(library, path, op, callback)
    if not hasattr(library, op):
        raise _error(_NOT_FOUND, f"{path} has no function '{op}' for the user op.")
    if callback:
        return Said()  # its metadata function, if it has one, is not looked up
    if not hasattr(library, _HEADER):
        raise _error(_FAILED_PRECONDITION, _COMPILE_AGAIN.format(path=path, op=op))
    version = ctypes.c_uint32.in_dll(library, _HEADER).value
    if version > _HEADER_VERSION:
        raise _error(_FAILED_PRECONDITION, (
            f"{path} was compiled with headers of version {version}, this is version "
            f"{_HEADER_VERSION}: compile it again."))
    return _poplar_metadata(library, op, num_inputs, level)


def _c_metadata(library, path, op, num_inputs):
    version = ctypes.c_uint32.in_dll(library, f"{op}_tremula").value
    if version != _API:
        raise _error(_FAILED_PRECONDITION, (
            f"The user op '{op}' of {path} was written for version {version} of tremula/user_op.h, "
            f"this is version {_API}: compile it again."))
    said = _Metadata(size=ctypes.sizeof(_Metadata), num_inputs=num_inputs)
    if hasattr(library, f"{op}_metadata"):
        function = getattr(library, f"{op}_metadata")
        function.restype, function.argtypes = None, [ctypes.POINTER(_Metadata)]
        function(ctypes.byref(said))
    return Said(said.is_stateless, said.is_hashable, said.is_elementwise)


def _level(library, path, op, callback):
    """The level of a Poplar library; None of a library that is none, or of callbacks alone."""
    try:
        level = ctypes.c_int32.in_dll(library, "custom_op_api_level").value
    except ValueError:
        if callback or not hasattr(library, _HEADER):
            return None
        level = 0
    if level not in _LEVELS:
        raise _error(_INTERNAL, (
            f"Api level of module {path}, op name {op} is {level}, expected 5. See section \"API "
            "level\" of docs/custom_operators.md."))
    return level


def _poplar_metadata(library, op, num_inputs, level):
    said = Said(is_poplar=True)
    if not hasattr(library, f"{op}_metadata"):
        return said
    room = 64  # for indices, which the engine asks for again
    user = _UserCall(
        level=level, function=ctypes.cast(getattr(library, f"{op}_metadata"), ctypes.c_void_p))
    call = _MetadataCall(
        user=user, num_inputs=num_inputs, max_indices=room,
        **{name: (ctypes.c_int64 * room)() for name in (
            "allocating", "replica_identical", "alias_inputs", "alias_outputs")})
    function = library.trm_poplar_metadata
    function.restype, function.argtypes = ctypes.c_int32, [ctypes.POINTER(_MetadataCall)]
    if function(ctypes.byref(call)):
        failure = call.user.failure
        what = failure.what.decode(errors="replace")
        if failure.thrown == 1:
            raise _error(_INTERNAL, "[Poplar][Build graph] "
                                    f"{failure.type.decode(errors='replace')}: {what}")
        raise _error(_UNKNOWN, what)
    said.is_stateless, said.is_hashable = call.is_stateless, call.is_hashable
    return said


def codelets(gp_path):
    """The files of codelets that a gp_path names, with commas between them: a source is compiled,
    unless the cache has it.

    Raises InternalError for a source that cannot be compiled, FailedPreconditionError without a
    compiler. What is no source is the engine's to refuse.
    """
    from tremula.poplar import paths, popc
    os.environ.setdefault("TREMULA_POPC", str(paths.PROGRAMS / "popc"))  # for Graph::addCodelets
    found = []
    for path in filter(None, gp_path.split(",")):
        path = absolute(path)
        if path.endswith(_SOURCES) and os.path.isfile(path):
            try:
                popc.compiler()
            except popc.Failure as failure:
                raise _error(_FAILED_PRECONDITION, f"{path}: {failure}.") from None
            try:
                path = str(popc.cached([path]))
            except (popc.Failure, OSError) as failure:
                raise _error(_INTERNAL, (
                    "[Poplar][Build graph] file_load_error: popc could not compile the codelets "
                    f"{path}: {failure}")) from None
        found.append(path)
    return found


def digest(path):
    """A hash of the file, as text; "" for a library that the loader has to search for."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()


_UNKNOWN, _NOT_FOUND, _FAILED_PRECONDITION, _INTERNAL = 2, 5, 9, 13


def _error(code, message):
    return errors.error_class(code)(None, None, message)


def _open(path, op):
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise _error(_NOT_FOUND, (
            f"The library of the user op '{op}' could not be opened: {error}. If it needs Poplar's "
            "own libraries: " + _COMPILE_AGAIN.format(path=path, op=op))) from None
