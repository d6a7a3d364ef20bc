"""The C library from Python: modules, compiling, running, feeds.

    from tremula import core
    module = core.Module.read_file("model.hlo")
    executable = core.compile(module)
    engine = core.Engine(executable)
    outputs = engine.run([x, y])          # numpy arrays in, numpy arrays out

One class for each object of include/tremula/tremula.h, one method for each function; what the
header says about bounds, threads and owners holds here. Every function that calls the library
raises a TremulaError of the kind that the library reports: InvalidArgumentError for input that is
wrong in itself, ResourceExhaustedError where memory runs out, and so on. Needs numpy and no
TensorFlow.
"""

import ctypes
import functools
import json
import math
import os
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_int, c_size_t, c_void_p
from typing import NamedTuple

import numpy as np

from tremula import accelerators, waiting

LIBRARY_DIR_VARIABLE = "TREMULA_LIBRARY_DIR"
_NAMES = ("libtremula.so.0", "libtremula.so")
_MAX_RANK = 16

# ---- Errors --------------------------------------------------------------------------------------


class TremulaError(Exception):
    """A failure that the library reports; `status` is its code (status.def; TensorFlow's codes)."""

    status = 2


# status.def: the code of each class.
_CODES = {
    "CancelledError": 1, "InvalidArgumentError": 3, "NotFoundError": 5, "AlreadyExistsError": 6,
    "ResourceExhaustedError": 8, "FailedPreconditionError": 9, "AbortedError": 10,
    "OutOfRangeError": 11, "UnimplementedError": 12, "InternalError": 13, "UnavailableError": 14,
    "DataLossError": 15,
}


class CancelledError(TremulaError):
    """Engine.cancel() or an interrupt stopped a run."""


class InvalidArgumentError(TremulaError):
    """The input is wrong in itself."""


class NotFoundError(TremulaError):
    """A file or another named thing does not exist."""


class AlreadyExistsError(TremulaError):
    """A file or another named thing exists already."""


class ResourceExhaustedError(TremulaError):
    """Memory, disk or devices ran out."""


class FailedPreconditionError(TremulaError):
    """The call is valid, but not in the present state."""


class AbortedError(TremulaError):
    """The call was given up; it may be tried again."""


class OutOfRangeError(TremulaError):
    """Past the end of the data."""


class UnimplementedError(TremulaError):
    """Not there yet; the message names the instruction."""


class InternalError(TremulaError):
    """A bug of the library."""


class UnavailableError(TremulaError):
    """The environment is not ready; try again."""


class DataLossError(TremulaError):
    """A file that was cut short or altered."""


_CLASSES = {}
for _class_name, _code in _CODES.items():
    globals()[_class_name].status = _code
    _CLASSES[_code] = globals()[_class_name]


class _Error(ctypes.Structure):  # trm_error
    _fields_ = [("status", c_int), ("message", c_char * 4096)]


def _call(name, *arguments):
    """Calls a function that returns a trm_status and takes a trm_error last."""
    error = _Error()
    status = getattr(library(), name)(*arguments, byref(error))
    if status != 0:
        _raise(error)


def _raise(error):
    raise _CLASSES.get(error.status, TremulaError)(error.message.decode("utf-8", "replace"))


# ---- Types ---------------------------------------------------------------------------------------

# dtype.def: HLO's number of each type that numpy has.
_NUMBERS = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16,
    "complex128": 18, "float8_e5m2": 19, "float8_e4m3fn": 20, "int4": 21, "uint4": 22,
    "float8_e4m3b11fnuz": 23, "float8_e5m2fnuz": 24, "float8_e4m3fnuz": 25, "int2": 26, "uint2": 27,
    "float8_e4m3": 28, "float8_e3m4": 29, "int1": 30, "uint1": 31, "float4_e2m1fn": 32,
    "float8_e8m0fnu": 33,
}


@functools.cache
def numpy_dtype(number):
    """The numpy dtype of an HLO type number. bfloat16, floats of 8 bits and fewer and integers of
    1, 2 and 4 bits are those of the package ml_dtypes; raises
    InvalidArgumentError where the installed package lacks the type."""
    for name, value in _NUMBERS.items():
        if value == number:
            if number != 16 and number < 19:
                return np.dtype(name)
            import ml_dtypes
            if not hasattr(ml_dtypes, name):
                raise InvalidArgumentError(
                    f"the installed ml_dtypes {ml_dtypes.__version__} has no {name}; install a "
                    "newer one")
            return np.dtype(getattr(ml_dtypes, name))
    raise InvalidArgumentError(f"HLO type {number} has no numpy dtype")


class TensorInfo(NamedTuple):
    """What an input, an output or an element of a feed looks like."""
    name: str
    dtype: np.dtype
    shape: tuple


class FeedInfo(NamedTuple):
    """A feed that a program uses; `kind` is "infeed" or "outfeed"."""
    id: str
    kind: str
    elements: list


class HostCallInfo(NamedTuple):
    """A call of a program to a function of the host, with the TensorInfos of its arrays."""
    id: str
    inputs: list
    outputs: list


class _TensorInfo(ctypes.Structure):  # trm_tensor_info
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", ctypes.c_int32),
                ("dims", ctypes.c_int64 * _MAX_RANK), ("bytes", c_size_t)]

    def unpack(self):
        return TensorInfo((self.name or b"").decode(), numpy_dtype(self.dtype),
                          tuple(self.dims[:self.rank]))


class _EngineSettings(ctypes.Structure):  # trm_engine_settings
    _fields_ = [("size", c_size_t), ("num_replicas", ctypes.c_uint32), ("accelerator", c_char_p),
                ("fastest", c_bool)]


class _Option(ctypes.Structure):  # trm_option
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


def _pack_elements(elements):
    """TensorInfos, or pairs of a dtype and a shape, as an array of trm_tensor_info."""
    packed = (_TensorInfo * max(1, len(elements)))()
    for info, element in zip(packed, elements):
        name, dtype, shape = element if len(element) == 3 else ("", *element)
        dtype = np.dtype(dtype)
        if dtype.name not in _NUMBERS or len(shape) > _MAX_RANK:
            raise InvalidArgumentError(f"an element cannot be {dtype.name}{list(shape)}")
        info.name, info.dtype, info.rank = name.encode(), _NUMBERS[dtype.name], len(shape)
        info.dims[:len(shape)] = shape
        info.bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return packed


# ---- The library ---------------------------------------------------------------------------------

_status, _handle, _out = c_int, c_void_p, POINTER(c_void_p)
_infos, _error = POINTER(_TensorInfo), POINTER(_Error)
_pointers = POINTER(c_void_p)
_HOST_FUNCTION = ctypes.CFUNCTYPE(_status, c_void_p, _pointers, _pointers, ctypes.c_uint32, _error)
_SIGNATURES = {
    "trm_version": (c_char_p, []),
    "trm_free": (None, [c_void_p]),
    "trm_module_read": (_status, [c_char_p, c_size_t, c_char_p, _out, _error]),
    "trm_module_read_file": (_status, [c_char_p, _out, _error]),
    "trm_module_read_lowered": (_status, [c_char_p, c_size_t, c_char_p, _out, _error]),
    "trm_module_num_outputs": (c_size_t, [_handle]),
    "trm_module_outputs": (_status, [_handle, _infos, POINTER(ctypes.c_int64), _error]),
    "trm_module_print": (_status, [_handle, _out, _error]),
    "trm_module_serialize": (_status, [_handle, _out, POINTER(c_size_t), _error]),
    "trm_module_verify": (_status, [_handle, _error]),
    "trm_module_free": (None, [_handle]),
    "trm_compile": (_status, [_handle, POINTER(_Option), c_size_t, _out, _error]),
    "trm_executable_serialize": (_status, [_handle, _out, POINTER(c_size_t), _error]),
    "trm_executable_deserialize": (_status, [c_char_p, c_size_t, _out, _error]),
    "trm_executable_save": (_status, [_handle, c_char_p, _error]),
    "trm_executable_load": (_status, [c_char_p, _out, _error]),
    "trm_executable_free": (None, [_handle]),
    "trm_executable_num_inputs": (c_size_t, [_handle]),
    "trm_executable_num_outputs": (c_size_t, [_handle]),
    "trm_executable_input": (_infos, [_handle, c_size_t]),
    "trm_executable_output": (_infos, [_handle, c_size_t]),
    "trm_executable_output_alias": (ctypes.c_int64, [_handle, c_size_t]),
    "trm_executable_print": (_status, [_handle, _out, _error]),
    "trm_executable_arena_bytes": (c_size_t, [_handle]),
    "trm_executable_feed": (c_char_p, [_handle, c_size_t, POINTER(c_char), POINTER(_infos),
                                       POINTER(c_size_t)]),
    "trm_executable_host_call": (c_char_p, [_handle, c_size_t, POINTER(_infos), POINTER(c_size_t),
                                            POINTER(_infos), POINTER(c_size_t)]),
    "trm_engine_set_host_call": (_status, [_handle, c_size_t, _HOST_FUNCTION, c_void_p, _error]),
    "trm_engine_create": (_status, [_handle, _out, _error]),
    "trm_engine_run": (_status, [_handle, _pointers, POINTER(ctypes.c_uint64), _pointers, _error]),
    "trm_engine_cancel": (None, [_handle]),
    "trm_engine_time_steps": (None, [_handle, c_bool]),
    "trm_executable_accelerator": (c_char_p, [_handle]),
    "trm_engine_create_with": (_status, [_handle, POINTER(_EngineSettings), _out, _error]),
    "trm_engine_keep_resident": (None, [_handle, c_bool]),
    "trm_fetch_resident": (_status, [c_void_p, _error]),
    "trm_forget_resident": (None, [c_void_p]),
    "trm_engine_print_accelerator": (_status, [_handle, _out, _error]),
    "trm_engine_print_times": (_status, [_handle, _out, _error]),
    "trm_engine_free": (None, [_handle]),
    "trm_engine_bind_infeed": (_status, [_handle, c_char_p, _handle, _error]),
    "trm_engine_bind_outfeed": (_status, [_handle, c_char_p, _handle, _error]),
    "trm_engine_set_seed": (None, [_handle, ctypes.c_uint64]),
    "trm_infeed_create": (_status, [_infos, c_size_t, c_size_t, _out, _error]),
    "trm_infeed_push": (_status, [_handle, _pointers, POINTER(c_bool), _error]),
    "trm_infeed_end": (None, [_handle, _status, c_char_p]),
    "trm_infeed_reset": (None, [_handle]),
    "trm_infeed_open": (None, [_handle]),
    "trm_infeed_close": (None, [_handle]),
    "trm_infeed_release": (None, [_handle]),
    "trm_outfeed_create": (_status, [_infos, c_size_t, c_bool, _out, _error]),
    "trm_outfeed_take": (_status, [_handle, POINTER(c_size_t), POINTER(POINTER(c_void_p)),
                                   _error]),
    "trm_outfeed_release": (None, [_handle]),
}


def library_folders():
    """Where the libraries and the analyser's page may be: in the folder TREMULA_LIBRARY_DIR; or
    beside this file, in the release build of a checkout, or where an editable install has them."""
    chosen = os.environ.get(LIBRARY_DIR_VARIABLE)
    if chosen:
        return [chosen]
    import importlib.metadata
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(package, "lib"),
               os.path.join(os.path.dirname(os.path.dirname(package)), "build", "release", "lib")]
    try:
        installed = importlib.metadata.distribution("tremula")
    except importlib.metadata.PackageNotFoundError:
        return folders
    return [*folders, str(installed.locate_file("tremula/lib"))]


def library_path():
    """The path of the library. Raises FileNotFoundError where it is in none of the folders."""
    folders = library_folders()
    for folder in folders:
        for name in _NAMES:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    raise FileNotFoundError(
        f"{_NAMES[0]} is not in {' or '.join(folders)}. Build it (`make`), install the package, or "
        f"set {LIBRARY_DIR_VARIABLE} to the folder that it is in.")


def _loaded():
    """The library that this process has already, such as that of TensorFlow's plugin; or None. A
    second one would have devices, events and processes of its own."""
    try:
        return ctypes.CDLL(_NAMES[0], mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


@functools.cache
def library():
    """The loaded library, by ctypes."""
    waiting.settle()
    accelerators.settle()
    loaded = _loaded() or ctypes.CDLL(library_path())
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def version():
    """The library's version."""
    return library().trm_version().decode()


def _take_block(block, size=None):
    """The bytes of a block that the library handed out, which is freed; a text where no size."""
    try:
        return ctypes.string_at(block) if size is None else ctypes.string_at(block, size.value)
    finally:
        library().trm_free(block)


def _text_of(function, handle):
    block = c_void_p()
    _call(function, handle, byref(block))
    return _take_block(block).decode("utf-8", "replace")


def _bytes_of(function, handle):
    block, size = c_void_p(), c_size_t()
    _call(function, handle, byref(block), byref(size))
    return _take_block(block, size)


class _Object:
    """Owns a handle, and frees it by the function `_free`."""

    _free = None

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is not None and handle.value and library is not None:  # None: Python exits
            getattr(library(), self._free)(handle)


# ---- Modules and executables ---------------------------------------------------------------------


class Module(_Object):
    """A verified HLO module."""

    _free = "trm_module_free"

    @classmethod
    def read(cls, data, name=None):
        """Reads and verifies a serialised HloModuleProto (bytes), also in a HloProto or HloSnapshot
        as XLA dumps it, or HLO text (bytes or str). `name` is what messages call the input. Raises
        InvalidArgumentError with line and column, or the instruction, for what is no valid module.
        """
        data = data.encode() if isinstance(data, str) else bytes(data)
        handle = c_void_p()
        _call("trm_module_read", data, len(data), name.encode() if name else None, byref(handle))
        return cls(handle)

    @classmethod
    def read_file(cls, path):
        """The same for a file."""
        handle = c_void_p()
        _call("trm_module_read_file", os.fsencode(path), byref(handle))
        return cls(handle)

    @classmethod
    def read_lowered(cls, data, notes):
        """Reads a serialised HloModuleProto with notes on the graph that it was lowered from.
        `notes` is a dict; trm_module_read_lowered() in tremula.h lists its keys."""
        handle = c_void_p()
        _call("trm_module_read_lowered", data, len(data), json.dumps(notes).encode(),
              byref(handle))
        return cls(handle)

    def outputs(self):
        """The arrays of the result: a list of (TensorInfo, index of the input that it is the new
        value of, or -1)."""
        count = library().trm_module_num_outputs(self._handle)
        infos, aliases = (_TensorInfo * max(1, count))(), (ctypes.c_int64 * max(1, count))()
        _call("trm_module_outputs", self._handle, infos, aliases)
        return [(infos[i].unpack(), aliases[i]) for i in range(count)]

    def print(self):
        """The module as HLO text."""
        return _text_of("trm_module_print", self._handle)

    def serialize(self):
        """The module as a serialised HloModuleProto."""
        return _bytes_of("trm_module_serialize", self._handle)

    def verify(self):
        """Checks every instruction again."""
        _call("trm_module_verify", self._handle)


def compile(module, **options):  # pylint: disable=redefined-builtin
    """Compiles a module; returns an Executable. Options are those of `tremula compile --option`,
    such as reference=True. Raises InvalidArgumentError for an unknown option or value, and
    UnimplementedError for an instruction that nothing computes."""
    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)
    packed = (_Option * max(1, len(options)))(
        *[_Option(key.encode(), text(value).encode()) for key, value in options.items()])
    handle = c_void_p()
    _call("trm_compile", module._handle, packed, len(options), byref(handle))
    return Executable(handle)


class Executable(_Object):
    """A compiled program. Immutable; threads may share it.

    inputs, outputs   a TensorInfo each; nested tuples are flattened
    aliases           for each output the index of the input that it updates (a variable), or -1
    feeds             a FeedInfo each
    arena_bytes       bytes of memory that a run needs beside inputs and outputs
    accelerator       the one that it was compiled for, such as "cuda:0"; None where there is none,
                      or the CPU computes all of it
    """

    _free = "trm_executable_free"

    def __init__(self, handle):
        super().__init__(handle)
        core = library()
        self.inputs = [core.trm_executable_input(handle, i)[0].unpack()
                       for i in range(core.trm_executable_num_inputs(handle))]
        self.outputs = [core.trm_executable_output(handle, i)[0].unpack()
                        for i in range(core.trm_executable_num_outputs(handle))]
        self.aliases = [core.trm_executable_output_alias(handle, i)
                        for i in range(len(self.outputs))]
        self.arena_bytes = core.trm_executable_arena_bytes(handle)
        name = core.trm_executable_accelerator(handle)
        self.accelerator = name and name.decode()

    @property
    def feeds(self):
        kind, elements, count = c_char(), _infos(), c_size_t()
        found = []
        while True:
            name = library().trm_executable_feed(self._handle, len(found), byref(kind),
                                                 byref(elements), byref(count))
            if name is None:
                return found
            found.append(FeedInfo(name.decode(), "infeed" if kind.value == b"i" else "outfeed",
                                  [elements[i].unpack() for i in range(count.value)]))

    @property
    def host_calls(self):
        found, sides = [], [(_infos(), c_size_t()) for _ in range(2)]
        while True:
            name = library().trm_executable_host_call(
                self._handle, len(found), *[byref(one) for side in sides for one in side])
            if name is None:
                return found
            found.append(HostCallInfo(name.decode(), *[
                [infos[i].unpack() for i in range(count.value)] for infos, count in sides]))

    @classmethod
    def deserialize(cls, data):
        """Reads what serialize() wrote."""
        handle = c_void_p()
        _call("trm_executable_deserialize", bytes(data), len(data), byref(handle))
        return cls(handle)

    @classmethod
    def load(cls, path):
        """Reads a file that save() wrote."""
        handle = c_void_p()
        _call("trm_executable_load", os.fsencode(path), byref(handle))
        return cls(handle)

    def serialize(self):
        """The executable as bytes."""
        return _bytes_of("trm_executable_serialize", self._handle)

    def save(self, path):
        """Writes a file."""
        _call("trm_executable_save", self._handle, os.fsencode(path))

    def print(self):
        """The optimised, fused and scheduled module, as HLO text."""
        return _text_of("trm_executable_print", self._handle)


# ---- Running -------------------------------------------------------------------------------------


def _checked(array, info, what):
    """`array` as the library wants it: of exactly the right type and shape, dense, aligned."""
    array = np.asarray(array)
    if array.dtype != info.dtype or array.shape != info.shape:
        raise InvalidArgumentError(
            f"{what} must be {info.dtype.name}{list(info.shape)}, not "
            f"{array.dtype.name}{list(array.shape)}")
    return np.require(array, requirements=["C", "A"])


_LINE = 64  # bytes of a cache line
_address, _from_buffer = ctypes.addressof, c_char.from_buffer


def block_for(info):
    """Bytes for an array that begins with a cache line: the library writes it faster."""
    return np.empty(info.dtype.itemsize * math.prod(info.shape) + _LINE - 1, np.uint8)


def array_in(block, info):
    """The array in its block."""
    first = -address_of(block) % _LINE
    return block[first:first + block.size - _LINE + 1].view(info.dtype).reshape(info.shape)


def address_of(array):
    """The address of the first element of a dense array that can be written, of any shape and type.
    Raises AttributeError for what is no array."""
    try:
        return _address(_from_buffer(array))  # much the faster way
    except (TypeError, ValueError):  # no elements, or a type that has no buffer
        return array.__array_interface__["data"][0]


def fetch_resident(address):
    """Brings home the resident contents of this place."""
    _call("trm_fetch_resident", address)


def forget_resident(address):
    """Drops it there."""
    library().trm_forget_resident(address)


def engine_call(engine, inputs, versions, outputs, resident=None):
    """A function without arguments that runs an engine, for callers that run it often: inputs and
    outputs are arrays of c_void_p and versions one of c_uint64, or None, which are read anew at
    each call, and checked by nobody. The addresses are those of arrays with the shapes and types of
    the executable's. `resident`, of c_uint64, is not 0 for outputs that may stay on an accelerator
    until fetch_resident. One thread at a time calls it. A call raises the TremulaError of a failed
    run."""
    error = _Error()
    library().trm_engine_keep_resident(engine._handle, resident is not None)
    arguments = (c_void_p * 6)(engine._handle.value, *[
        None if one is None else ctypes.addressof(one)
        for one in (inputs, versions, outputs, resident, error)])  # trm_engine_call
    # ctypes passes a reference on as it is where it knows no types, which is the fastest way.
    run = ctypes.CFUNCTYPE(c_int)(ctypes.cast(library().trm_engine_run_call, c_void_p).value)
    reference = byref(arguments)

    def call():
        if run(reference) != 0:
            engine.raise_from_host()
            _raise(error)
    call.keeps_alive = engine, inputs, versions, outputs, resident, arguments
    return call


def _array_at(address, info):
    """The array of that type at an address; what it is a view of belongs to others."""
    size = info.dtype.itemsize * int(np.prod(info.shape, dtype=np.int64))
    if size == 0:
        return np.empty(info.shape, info.dtype)
    return np.frombuffer((c_char * size).from_address(address), info.dtype).reshape(info.shape)


def _host_function(call, function, problems):
    """A Python function as the library calls it. What it raises is added to `problems`."""

    def run(_, inputs, outputs, replica, error):
        try:
            results = function(*[_array_at(inputs[k], info).copy()
                                 for k, info in enumerate(call.inputs)])
            if len(results) != len(call.outputs):
                raise InvalidArgumentError(f"{call.id} gave {len(results)} arrays, and "
                                           f"{len(call.outputs)} are wanted")
            for k, info in enumerate(call.outputs):
                _array_at(outputs[k], info)[...] = _checked(results[k], info, f"result {k}")
            return 0
        except BaseException as problem:  # the run ends with it
            problems.append(problem)
            error.contents.message = f"{type(problem).__name__}: {problem}".encode()[:1000]
            return InternalError.status

    return _HOST_FUNCTION(run)


def _addresses(arrays):
    return (c_void_p * max(1, len(arrays)))(*[array.ctypes.data for array in arrays])


class Engine(_Object):
    """An executable with memory of its own. One thread at a time runs it.

    accelerator  as in TREMULA_ACCELERATOR; "": the CPU; None: as the environment says
    fastest      the accelerator's fastest arithmetic, in place of float32's own
    """

    _free = "trm_engine_free"

    def __init__(self, executable, accelerator=None, fastest=False):
        super().__init__(c_void_p())
        self.executable = executable
        self._feeds = []
        self._host_functions, self._problems = {}, []
        accelerators.settle(accelerator)
        name = None if accelerator is None else accelerator.encode()
        settings = _EngineSettings(ctypes.sizeof(_EngineSettings), 1, name, fastest)
        _call("trm_engine_create_with", executable._handle, byref(settings), byref(self._handle))

    @property
    def accelerated(self):
        """What an accelerator computes, and for each reason how many steps the CPU does."""
        return _text_of("trm_engine_print_accelerator", self._handle)

    def run(self, inputs=(), versions=None, outputs=None):
        """Computes once and returns the outputs.

        inputs    numpy arrays of exactly the types and shapes of `executable.inputs`; read in
                  place where they are dense
        versions  for each input a number that changes whenever its contents may have, or 0: weights
                  that have not changed are not packed again
        outputs   dense arrays to write to, which must not overlap anything; None: new ones

        Raises InvalidArgumentError for another number, type or shape of arrays, CancelledError
        after cancel(), and the error that a feed was ended with.
        """
        infos = self.executable.inputs
        if len(inputs) != len(infos):
            raise InvalidArgumentError(f"{len(infos)} inputs are wanted, not {len(inputs)}")
        inputs = [_checked(array, info, f"input {i}")
                  for i, (array, info) in enumerate(zip(inputs, infos))]
        if versions is not None:
            if len(versions) != len(infos):
                raise InvalidArgumentError(f"{len(infos)} versions are wanted, not {len(versions)}")
            versions = (ctypes.c_uint64 * max(1, len(versions)))(*versions)
        infos = self.executable.outputs
        if outputs is None:
            outputs = [array_in(block_for(info), info) for info in infos]
        elif len(outputs) != len(infos):
            raise InvalidArgumentError(f"{len(infos)} outputs are wanted, not {len(outputs)}")
        for i, (array, info) in enumerate(zip(outputs, infos)):
            if _checked(array, info, f"output {i}") is not array or not array.flags.writeable:
                raise InvalidArgumentError(f"output {i} must be a dense array that can be written")
        try:
            _call("trm_engine_run", self._handle, _addresses(inputs), versions,
                  _addresses(outputs))
        except TremulaError:
            self.raise_from_host()
            raise
        return list(outputs)

    def cancel(self):
        """Asks a run in another thread to stop: it raises CancelledError."""
        library().trm_engine_cancel(self._handle)

    def set_seed(self, seed):
        """The seed of the program's stateful random numbers."""
        library().trm_engine_set_seed(self._handle, seed)

    def time_steps(self, on=True):
        """Measures from now on how long each instruction takes."""
        library().trm_engine_time_steps(self._handle, on)

    def print_times(self):
        """A table of the milliseconds that every instruction has taken since time_steps(), the
        slowest first."""
        return _text_of("trm_engine_print_times", self._handle)

    def set_host_call(self, i, function):
        """The function for number i of executable.host_calls, which gets an array for each input
        and returns one for each output. What it raises ends the run, which raises the same."""
        call = self.executable.host_calls[i]
        self._host_functions[i] = _host_function(call, function, self._problems)
        _call("trm_engine_set_host_call", self._handle, i, self._host_functions[i], None)

    def raise_from_host(self):
        """Raises what a function of the host has raised in the last run, if one has."""
        if self._problems:
            problem = self._problems[0]
            self._problems.clear()
            raise problem

    def bind(self, feed_id, queue):
        """Connects the feed `feed_id` of the program to an Infeed or an Outfeed."""
        kind = "infeed" if isinstance(queue, Infeed) else "outfeed"
        _call(f"trm_engine_bind_{kind}", self._handle, feed_id.encode(), queue._handle)
        self._feeds.append(queue)


# ---- Feeds ---------------------------------------------------------------------------------------


def _feed_elements(elements):
    return [TensorInfo(element[0] if len(element) == 3 else "", np.dtype(element[-2]),
                       tuple(element[-1])) for element in elements]


class Infeed(_Object):
    """A bounded queue that a program reads from; any thread may use it.

    elements is a list of TensorInfo (those of Executable.feeds) or of (dtype, shape); depth is how
    many tuples the queue holds.
    """

    _free = "trm_infeed_release"

    def __init__(self, elements, depth=2):
        super().__init__(c_void_p())
        self.elements = _feed_elements(elements)
        _call("trm_infeed_create", _pack_elements(self.elements), len(self.elements), depth,
              byref(self._handle))

    def push(self, *arrays):
        """Copies one tuple of arrays into the queue. Waits while the queue is full and open();
        returns False when the queue is full and no run consumes."""
        if len(arrays) != len(self.elements):
            raise InvalidArgumentError(
                f"{len(self.elements)} arrays are wanted, not {len(arrays)}")
        arrays = [_checked(array, info, f"element {i}")
                  for i, (array, info) in enumerate(zip(arrays, self.elements))]
        accepted = c_bool()
        _call("trm_infeed_push", self._handle, _addresses(arrays), byref(accepted))
        return accepted.value

    def end(self, status=OutOfRangeError.status, message="end of sequence"):
        """Says that nothing follows: a read past the end fails with this."""
        library().trm_infeed_end(self._handle, status, message.encode())

    def reset(self):
        """Empties the queue and forgets an end."""
        library().trm_infeed_reset(self._handle)

    def open(self):
        """Says that a run is about to consume, so push() waits while the queue is full."""
        library().trm_infeed_open(self._handle)

    def close(self):
        """Says that no run consumes any more, so push() does not wait."""
        library().trm_infeed_close(self._handle)


class Outfeed(_Object):
    """A queue that a program writes to; with keep_last only the last tuple is kept."""

    _free = "trm_outfeed_release"

    def __init__(self, elements, keep_last=False):
        super().__init__(c_void_p())
        self.elements = _feed_elements(elements)
        _call("trm_outfeed_create", _pack_elements(self.elements), len(self.elements), keep_last,
              byref(self._handle))

    def take(self):
        """The tuples that were enqueued since the last call: one array for each element, of the
        shape [tuples, *element's shape]."""
        count, blocks = c_size_t(), POINTER(c_void_p)()
        _call("trm_outfeed_take", self._handle, byref(count), byref(blocks))
        taken = []
        try:
            for i, info in enumerate(self.elements):
                shape = (count.value, *info.shape)
                size = info.dtype.itemsize * int(np.prod(shape, dtype=np.int64))
                data = ctypes.string_at(blocks[i], size) if size else b""
                taken.append(np.frombuffer(bytearray(data), info.dtype).reshape(shape))
        finally:
            for i in range(len(self.elements)):
                library().trm_free(blocks[i])
            library().trm_free(ctypes.cast(blocks, c_void_p))
        return taken
