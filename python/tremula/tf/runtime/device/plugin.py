"""Finds and loads the TensorFlow plugin (libtremula_tf.so), and calls it.

The plugin makes /device:IPU:N known to TensorFlow. load() is called when `tensorflow.python.ipu`
is first imported, and not with TensorFlow, so that a program without IPUs pays nothing. TensorFlow
lists its devices when it first runs anything eagerly; in a program that has done so before, the
IPUs are added to them (src/tf/late_devices.c).
"""

import ctypes
import functools
import os
import sys
import threading

from tremula import _late_devices, accelerators, core, waiting
from tremula.tf.inner import eager, errors, registry, versions

_MESSAGE_SIZE = 4096

_lock = threading.RLock()


class Input(ctypes.Structure):
    """An input of a program that is lowered late: trm_tf_input in src/tf/launch.h."""
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64)]


class Request(ctypes.Structure):
    """A request to lower something: trm_tf_request in src/tf/launch.h."""
    _fields_ = [("kind", ctypes.c_int32), ("num_inputs", ctypes.c_int32),
                ("payload", ctypes.c_void_p), ("payload_size", ctypes.c_uint64),
                ("name", ctypes.c_char_p), ("inputs", ctypes.POINTER(Input)),
                ("reply", ctypes.c_void_p)]


class AttachRequest(ctypes.Structure):
    """What a device is to be attached to: trm_tf_attach_request in src/tf/settings.h."""
    _fields_ = [("num_ipus", ctypes.c_uint32), ("num_ids", ctypes.c_uint32),
                ("ids", ctypes.POINTER(ctypes.c_uint32)), ("timeout_ms", ctypes.c_uint32),
                ("poll_ms", ctypes.c_uint32)]


class Distribution(ctypes.Structure):
    """Which process of a program this is: trm_tf_distribution in src/tf/settings.h."""
    _fields_ = [("num_processes", ctypes.c_uint32), ("process", ctypes.c_uint32)]


class DeviceSettings(ctypes.Structure):
    """How a device is configured: trm_tf_device_settings in src/tf/settings.h."""
    _fields_ = [("options", ctypes.c_char_p), ("cache_path", ctypes.c_char_p),
                ("connection", ctypes.c_int32), ("is_model", ctypes.c_int32),
                ("synthetic", ctypes.c_uint32), ("synthetic_initializer", ctypes.c_char_p),
                ("attach", AttachRequest), ("distribution", Distribution)]


class EventSettings(ctypes.Structure):
    """Which events are recorded: trm_tf_event_settings in src/tf/events.h."""
    _fields_ = [("bits", ctypes.c_uint32), ("form", ctypes.c_int32), ("every", ctypes.c_uint32),
                ("most_report_bytes", ctypes.c_uint64), ("directory", ctypes.c_char_p)]


class HostArray(ctypes.Structure):
    """An array of a call to the host: trm_tf_host_array in src/tf/host_calls.h."""
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64)]


class HostRequest(ctypes.Structure):
    """A call to the host: trm_tf_host_request in src/tf/host_calls.h."""
    _fields_ = [("id", ctypes.c_char_p), ("replica", ctypes.c_uint32),
                ("num_inputs", ctypes.c_int32), ("num_outputs", ctypes.c_int32),
                ("inputs", ctypes.POINTER(HostArray)), ("outputs", ctypes.POINTER(HostArray)),
                ("reply", ctypes.c_void_p)]


FirstUseFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_char),
                                    ctypes.c_uint64)
HostFunctionType = ctypes.CFUNCTYPE(None, ctypes.POINTER(HostRequest))
LowerFunction = ctypes.CFUNCTYPE(None, ctypes.POINTER(Request))

_text, _int, _size = ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint64
_number = ctypes.c_uint32
_SIGNATURES = {
    "trm_tf_add_devices": (_int, [ctypes.c_void_p, _text, _size]),
    "trm_tf_architecture": (_int, [_text, _text, _size]),
    "trm_tf_cache_close": (None, [ctypes.c_void_p]),
    "trm_tf_cache_enter": (_int, [ctypes.c_void_p]),
    "trm_tf_cache_free_data": (None, [ctypes.c_void_p]),
    "trm_tf_cache_open": (ctypes.c_void_p, [_text, _text]),
    "trm_tf_cache_read": (ctypes.c_void_p,
                          [ctypes.c_void_p, _int, ctypes.POINTER(ctypes.c_uint64)]),
    "trm_tf_cache_write": (None, [ctypes.c_void_p, _text, _size]),
    "trm_tf_configure": (_int, [_int, ctypes.POINTER(DeviceSettings), _text, _size]),
    "trm_tf_declare_infeed": (None, [_text, _size, _number]),
    "trm_tf_declare_outfeed": (None, [_text, _int, _number]),
    "trm_tf_dump_estimates": (None, [_int, _text]),
    "trm_tf_forget_units": (None, []),
    "trm_tf_forked": (None, []),
    "trm_tf_host_error": (None, [ctypes.POINTER(HostRequest), _int, _text]),
    "trm_tf_interrupt_cancels": (None, [_int]),
    "trm_tf_interrupt_defer": (None, []),
    "trm_tf_interrupt_is_watched": (_int, []),
    "trm_tf_interrupt_release": (_int, []),
    "trm_tf_interrupt_resume": (None, []),
    "trm_tf_interrupt_runs": (None, []),
    "trm_tf_interrupted_feeds": (_int, []),
    "trm_tf_ipus_of_id": (_int, [ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32), _text, _size]),
    "trm_tf_units_built": (_size, []),
    "trm_tf_units_kept": (_size, []),
    "trm_tf_log": (None, [_text, _text]),
    "trm_tf_log_cycles": (None, [_int]),
    "trm_tf_register_host_table": (None, [_text, _int]),
    "trm_tf_register_kernel": (_int, [_text, _text, _int, _text, _size]),
    "trm_tf_reply_error": (None, [ctypes.POINTER(Request), _int, _text]),
    "trm_tf_reply_module": (None, [ctypes.POINTER(Request), _text, _size, _text]),
    "trm_tf_reset_configuration": (None, []),
    "trm_tf_session_cancel": (None, [_size]),
    "trm_tf_session_enter": (_size, [_size]),
    "trm_tf_set_events": (None, [ctypes.POINTER(EventSettings)]),
    "trm_tf_set_first_use": (None, [FirstUseFunction]),
    "trm_tf_set_host_function": (None, [HostFunctionType]),
    "trm_tf_set_lower": (None, [LowerFunction]),
    "trm_tf_set_participants": (_int, [ctypes.POINTER(_number), _number, _text, _size]),
    "trm_tf_set_seed": (None, [_size]),
    "trm_tf_show_progress": (None, [_int]),
}


def path():
    """Where the plugin is: beside the library. Raises FileNotFoundError if it is not there."""
    folder = os.path.dirname(core.library_path())
    found = os.path.join(folder, _late_devices.PLUGIN)
    if not os.path.exists(found):
        raise FileNotFoundError(
            f"The TensorFlow plugin {_late_devices.PLUGIN} is not in {folder}. Build it (`make`), "
            f"install the package, or set {core.LIBRARY_DIR_VARIABLE} to the folder that it is in.")
    return found


@functools.cache
def library():
    """The loaded plugin, by ctypes. Loads it, but registers no kernels: see load().

    Raises ImportError if the process has loaded another one.
    """
    with _lock:
        waiting.settle()
        accelerators.settle()
        before = _late_devices.loaded_plugin()
        if before is None:
            registry.load_device_plugin(path())
        elif not os.path.samefile(before, path()):
            # A second one would make TensorFlow abort.
            raise ImportError(f"This process has loaded the TensorFlow plugin {before}, but "
                              f"tensorflow.python.ipu comes with {path()}. Load that one, or none.")
        loaded = ctypes.CDLL(path())
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        return loaded


_installers = []


def on_load(*installers):
    """Has load() call these functions, in their order, once the library is there."""
    _installers.extend(installers)


@functools.cache
def load():
    """Makes the IPU devices and everything on them known to TensorFlow. Later calls do nothing.

    Raises RuntimeError if TensorFlow has devices already and takes no more.
    """
    with _lock:
        versions.prefer_legacy_keras()
        library()
        eager.add_late_devices("IPU", lambda address: check(library().trm_tf_add_devices, address))
        for install in _installers:
            install()


def check(call, *arguments):
    """Calls a function of the plugin that returns a status code and, last, writes a message.

    Raises TensorFlow's exception for the code.
    """
    message = ctypes.create_string_buffer(_MESSAGE_SIZE)
    code = call(*arguments, message, _MESSAGE_SIZE)
    if code:
        raise errors.error_class(code)(None, None, message.value.decode(errors="replace"))


def log_info(origin, text):
    """One line of the library's log at the level INFO (tremula/log.h). `origin`: a short word."""
    library().trm_log(3, origin.encode(), b"%s", text.encode())


def log(text):
    """One line on standard error, in TensorFlow's log format, from whoever calls this."""
    caller = sys._getframe(1)
    place = "tremula" + caller.f_code.co_filename.rpartition(os.sep + "tremula")[2]
    library().trm_tf_log(f"{place}:{caller.f_lineno}".encode(), text.encode())
