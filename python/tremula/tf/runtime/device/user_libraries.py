"""Users' shared libraries with ops in them: what include/tremula/user_op.h says of them."""

import ctypes
import hashlib
import os

from tremula.tf.inner import errors

_API = 1  # TRM_USER_OP_API

_API_LEVELS = range(1, 6)  # custom_op_api_level of the original's SDKs
_POPLAR_VERSION = 1  # TRM_POPLAR_VERSION
_INDICES = 256

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
    is_poplar = False


class _PoplarCall(ctypes.Structure):
    """trm_poplar_metadata_call, up to what it is asked for."""
    _fields_ = [("size", ctypes.c_uint32), ("level", ctypes.c_int32), ("api", ctypes.c_void_p),
                ("function", ctypes.c_void_p), ("num_inputs", ctypes.c_uint32),
                ("max_indices", ctypes.c_uint32), ("num_allocating", ctypes.c_uint32),
                ("num_replica_identical", ctypes.c_uint32), ("num_aliases", ctypes.c_uint32),
                *((name, ctypes.POINTER(ctypes.c_int64)) for name in (
                    "allocating", "replica_identical", "alias_inputs", "alias_outputs")),
                ("is_elementwise", ctypes.c_bool), ("is_stateless", ctypes.c_bool),
                ("is_hashable", ctypes.c_bool), ("thrown", ctypes.c_uint32),
                ("type", ctypes.c_char * 124), ("what", ctypes.c_char * 2048)]
    is_poplar = True


def absolute(path):
    """The path of a library. If no such file exists, the loader searches for the name."""
    path = os.fspath(path)
    return os.path.abspath(path) if os.path.exists(path) else path


def metadata(path, op, num_inputs, callback):
    """What the library says of an op: an object with is_stateless, is_hashable, is_elementwise.

    `callback`: a host callback with the original's signature will do too.

    Of an operator in C++ against Poplar's headers it also says is_poplar.

    Raises NotFoundError for what is not there, FailedPreconditionError for a library that was
    compiled for another version or with the original SDK, InternalError for another API level.
    """
    library = _open(path, op)
    said = _Metadata(size=ctypes.sizeof(_Metadata), num_inputs=num_inputs)
    try:
        version = ctypes.c_uint32.in_dll(library, f"{op}_tremula").value
    except ValueError:
        if not hasattr(library, op):
            raise _error(_NOT_FOUND, f"{path} has no function '{op}' for the user op.") from None
        return said if callback else _poplar_metadata(library, path, op, num_inputs)
    if version != _API:
        raise _error(_FAILED_PRECONDITION, (
            f"The user op '{op}' of {path} was written for version {version} of tremula/user_op.h, "
            f"this is version {_API}: compile it again."))
    if hasattr(library, f"{op}_metadata"):
        function = getattr(library, f"{op}_metadata")
        function.restype, function.argtypes = None, [ctypes.POINTER(_Metadata)]
        function(ctypes.byref(said))
    return said


def _poplar_metadata(library, path, op, num_inputs):
    """The same of an operator in C++, which need not have metadata."""
    try:
        level = ctypes.c_int32.in_dll(library, "custom_op_api_level").value
    except ValueError:
        level = 0
    if not hasattr(library, "trm_poplar_header"):
        raise _error(_FAILED_PRECONDITION, _COMPILE_AGAIN.format(path=path, op=op))
    if level not in _API_LEVELS:
        raise _error(_INTERNAL, (
            f"Api level of module {path}, op name {op} is {level}, expected 5. See section "
            '"API level" of docs/custom_operators.md.'))
    version = ctypes.c_uint32.in_dll(library, "trm_poplar_header").value
    if version > _POPLAR_VERSION:
        raise _error(_FAILED_PRECONDITION, (
            f"{path} was compiled with headers of version {version}, this is version "
            f"{_POPLAR_VERSION}: compile it again."))
    said = _PoplarCall(size=ctypes.sizeof(_PoplarCall), level=level, num_inputs=num_inputs,
                       max_indices=_INDICES)
    if hasattr(library, f"{op}_metadata"):
        said.function = ctypes.cast(getattr(library, f"{op}_metadata"), ctypes.c_void_p)
        for name in "allocating", "replica_identical", "alias_inputs", "alias_outputs":
            setattr(said, name, (ctypes.c_int64 * _INDICES)())
        if library.trm_poplar_metadata(ctypes.byref(said)) != 0:
            raise _error(_UNKNOWN, said.what.decode(errors="replace"))
    return said


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
