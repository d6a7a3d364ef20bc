"""Users' shared libraries with ops in them: what include/tremula/user_op.h says of them."""

import ctypes
import hashlib
import os

from tremula.tf.inner import errors

_API = 1  # TRM_USER_OP_API

_NO_POPLAR = (
    "There is no Poplar here, so a library that builds a graph with the Poplar C++ library cannot "
    "be used. Write what its vertices compute as a C function with the signature of "
    "tremula/user_op.h (TRM_USER_OP({op}), docs/user_ops.md), or with TensorFlow's own operations.")


class _Metadata(ctypes.Structure):
    """trm_user_op_metadata."""
    _fields_ = [("size", ctypes.c_uint32), ("num_inputs", ctypes.c_uint32),
                ("is_stateless", ctypes.c_bool), ("is_hashable", ctypes.c_bool),
                ("is_elementwise", ctypes.c_bool), ("allocating_inputs", ctypes.c_uint64),
                ("replica_identical_outputs", ctypes.c_uint64)]


def absolute(path):
    """The path of a library. If no such file exists, the loader searches for the name."""
    path = os.fspath(path)
    return os.path.abspath(path) if os.path.exists(path) else path


def metadata(path, op, num_inputs, callback):
    """What the library says of an op: an object with is_stateless, is_hashable, is_elementwise.

    `callback`: a host callback with the original's signature will do too.

    Raises NotFoundError for what is not there, UnimplementedError for a Poplar library,
    FailedPreconditionError for one that was compiled for another version.
    """
    library = _open(path, op)
    said = _Metadata(size=ctypes.sizeof(_Metadata), num_inputs=num_inputs)
    try:
        version = ctypes.c_uint32.in_dll(library, f"{op}_tremula").value
    except ValueError:
        if not hasattr(library, op) and not hasattr(library, "custom_op_api_level"):
            raise _error(_NOT_FOUND, f"{path} has no function '{op}' for the user op.") from None
        if not (callback and hasattr(library, op)):
            raise _error(_UNIMPLEMENTED, (
                f"{path} does not have the user op '{op}' with the C signature of "
                "tremula/user_op.h. " + _NO_POPLAR.format(op=op))) from None
        return said  # its metadata function, if it has one, is C++
    if version != _API:
        raise _error(_FAILED_PRECONDITION, (
            f"The user op '{op}' of {path} was written for version {version} of tremula/user_op.h, "
            f"this is version {_API}: compile it again."))
    if hasattr(library, f"{op}_metadata"):
        function = getattr(library, f"{op}_metadata")
        function.restype, function.argtypes = None, [ctypes.POINTER(_Metadata)]
        function(ctypes.byref(said))
    return said


def digest(path):
    """A hash of the file, as text; "" for a library that the loader has to search for."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()


_NOT_FOUND, _FAILED_PRECONDITION, _UNIMPLEMENTED = 5, 9, 12


def _error(code, message):
    return errors.error_class(code)(None, None, message)


def _open(path, op):
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        needs_poplar = any(word in str(error) for word in ("poplar", "poputil", "popops"))
        raise _error(_UNIMPLEMENTED if needs_poplar else _NOT_FOUND, (
            f"The library of the user op '{op}' could not be opened: {error}."
            + (" " + _NO_POPLAR.format(op=op) if needs_poplar else ""))) from None
