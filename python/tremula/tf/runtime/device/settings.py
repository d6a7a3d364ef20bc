"""Configuring the devices: from a configuration's snapshot to the plugin's settings.

A snapshot is what tremula.tf.ipu.config says it is. The plugin takes, for each TF device, the
options of the compiler as lines KEY=VALUE.
"""

import ctypes
import json
import os

from tremula import flags, tables
from tremula.tf.inner import errors
from tremula.tf.runtime.device import compile_options, plugin

_NO_ATTACHING = ("IPU Model: /device:IPU:{ordinal} is attached to no IPU; programs are "
                 "compiled for {count}")
_CLEARING = (
    "Clearing XLA compilation cache of device '/device:IPU:0' while executable caching is "
    "disabled. To enable the executable cache and potentially save recompilation time set the "
    "'executable_cache_path' option, e.g "
    "'TF_POPLAR_FLAGS=--executable_cache_path=/path/to/storage'. This is logged at most once.")
_has_told = False
_MOST_MS = 2 ** 32 - 1
_PROGRESS_MODES = {"false": "NEVER", "true": "ALWAYS", "auto": "AUTO"}
_NO_PROFILE = "NO_PROFILE"

_make_default = None  # see set_default()
_devices = None       # what the configuration in force says of each TF device; None: there is none


def set_default(make_snapshot):
    """`make_snapshot` gives the snapshot, a dict, for a program that does not configure the
    system."""
    global _make_default
    _make_default = make_snapshot


@plugin.FirstUseFunction
def _configure_first_use(ordinal, message, size):
    """Configures the system for a program that has not done so. A device that a configuration does
    not name has one IPU and no options, as in the original."""
    try:
        if _make_default is None:
            raise RuntimeError("No IPU devices configured.")
        if ordinal == 0:
            _apply(_make_default())
        else:
            plugin.log(f"No IPU device was configured for /device:IPU:{ordinal}, creating a "
                       "device with a single IPU.")
            _configure_device(ordinal, {"auto": 1}, _make_default())
    except Exception as error:  # a C caller must not see it
        text = str(getattr(error, "message", error)).encode()[:size - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return getattr(error, "error_code", None) or errors.INVALID_ARGUMENT
    return 0


def install():
    """Makes the plugin ask this module for a configuration when a device has none."""
    plugin.library().trm_tf_set_first_use(_configure_first_use)


def configure(snapshot_json):
    """Sets up the TF devices that a configuration names, and attaches them to IPUs.

    Raises TensorFlow's errors where no such IPUs are free.
    """
    global _devices
    snapshot = json.loads(snapshot_json)
    _apply(snapshot)
    _devices = snapshot["devices"]


def _apply(snapshot):
    global _engine_options
    plugin.load()
    _engine_options = tuple(snapshot["options"].get("compilation_poplar_options", ()))
    _tell_of_cache(snapshot["flags"])
    reset_configuration()
    set_flags(snapshot["flags"])
    _set_events(snapshot["options"], snapshot["flags"])
    try:
        for ordinal, device in enumerate(snapshot["devices"] or [{"auto": 1}]):
            _configure_device(ordinal, device, snapshot)
    except Exception:
        reset_configuration()
        raise


def _tell_of_cache(values):
    """Says once that a cache would save compiling programs again."""
    global _has_told
    if _has_told or values["executable_cache_path"] or not plugin.library().trm_tf_units_built():
        return
    _has_told = True
    plugin.log(_CLEARING)


def set_flags(values):
    """Hands over the flags that are not a device's: `values` is a dict by name."""
    library = plugin.library()
    library.trm_tf_log_cycles(int(values["log_cycle_count"]) >= 0)
    library.trm_tf_show_progress(tables.PROGRESS[_PROGRESS_MODES[values["show_progress_bar"]]])
    library.trm_tf_dump_estimates(values["dump_schedule_as_dot"],
                              values["tensor_map_file_path"].encode())


_recorded = 0  # tables.EVENTS bits
_engine_options = ()  # their names, of the configuration in force


def records_transfers():
    """Whether transfers of variables are events."""
    return bool(_recorded & tables.EVENTS["TRANSFERS"])


def writes_reports():
    """Whether engine options speak of reports."""
    return any("autoReport." in one for one in (
        *_engine_options, os.environ.get("POPLAR_ENGINE_OPTIONS", "")))


def _set_events(options, values):
    """What is recorded: see docs/events.md and src/tf/events.h."""
    global _recorded
    profiling = options.get("_profiling.profiling", False)
    wanted = {
        "RUNS": profiling or options.get("_profiling.enable_ipu_events"),
        "TRANSFERS": profiling or options.get("_profiling.enable_io_trace"),
        "REPORT": profiling,
        "TENSOR_MAP": profiling or options.get("_profiling.enable_compilation_trace"),
        "GRAPH": profiling and options.get("_profiling.enable_poplar_serialized_graph"),
        "EXECUTION": (profiling and options.get("_profiling.profile_execution", _NO_PROFILE)
                      != _NO_PROFILE),
        "PRINT": profiling and values["dump_text_reports_to_stdio"]}
    bits = sum(tables.EVENTS[name] for name, is_wanted in wanted.items()
               if is_wanted) if wanted["RUNS"] else 0
    _recorded = bits
    plugin.library().trm_tf_set_events(plugin.EventSettings(
        bits=bits,
        form=(1 if options.get("_profiling.use_poplar_text_report")
              else 2 if options.get("_profiling.use_poplar_cbor_report") else 0),
        every=max(0, options.get("_profiling.report_every_nth_execution", 0)),
        most_report_bytes=max(0, options.get("_profiling.max_report_size", 0)),
        directory=options.get("_profiling.report_directory", "").encode()))
    if bits:
        plugin.library().trm_tf_forget_units()  # what is compiled already would have no events


def _configure_device(ordinal, device, snapshot):
    values = snapshot["flags"]
    connection = snapshot["options"].get("device_connection.type", "ALWAYS")
    lines = compile_options.lines(snapshot, device, ipus_of_id, architecture)
    ids = [device["id"]] if "id" in device else []
    plugin.check(plugin.library().trm_tf_configure, ordinal, plugin.DeviceSettings(
        options=lines.encode(), cache_path=values["executable_cache_path"].encode(),
        connection=tables.CONNECTIONS[connection], is_model=values["use_ipu_model"],
        synthetic=_synthetic_bits(values),
        synthetic_initializer=values["synthetic_data_initializer"].encode(),
        attach=plugin.AttachRequest(
            num_ipus=device.get("auto", 0), num_ids=len(ids),
            ids=(ctypes.c_uint32 * (len(ids) + 1))(*ids),
            timeout_ms=max(0, min(values["on_demand_device_timeout"], _MOST_MS)),
            poll_ms=min(values["on_demand_device_poll_time"], _MOST_MS)),
        distribution=plugin.Distribution(
            num_processes=compile_options.num_processes(snapshot),
            process=snapshot["options"].get(
                "experimental.multi_replica_distribution.process_index", 0))))
    if values["use_ipu_model"]:
        count = device.get("auto", 1)
        plugin.log(_NO_ATTACHING.format(
            ordinal=ordinal, count=f"{count} IPU" + ("s" if count > 1 else "")))


def _synthetic_bits(values):
    bits = sum(bit for category, bit in tables.SYNTHETIC.items()
               if flags.uses_synthetic_data_for(category, values))
    return bits | (tables.SYNTHETIC_MORE["NULL_FEED"] if values["null_data_feed"] else 0)


def compile_lines(snapshot):
    """The compiler's options for the first TF device of a snapshot: see compile_options.lines()."""
    device = (snapshot["devices"] or [{"auto": 1}])[0]
    return compile_options.lines(snapshot, device, ipus_of_id, architecture)


def num_ipus(ordinal):
    """How many IPUs /device:IPU:`ordinal` has; what ipus_of_device() says of the configuration in
    force. Raises RuntimeError if there is none."""
    if _devices is None:
        raise RuntimeError("No IPU devices configured.")
    return ipus_of_device(_devices, ordinal)


def ipus_of_device(devices, ordinal):
    """How many IPUs /device:IPU:`ordinal` has, of the `devices` of a snapshot.

    Raises ValueError if they do not name the device, InvalidArgumentError if the id that
    they name is not in the inventory.
    """
    if not devices and ordinal == 0:
        return 1  # nothing selected: a device of one IPU
    if ordinal >= len(devices):
        raise ValueError(f"Device ordinal {ordinal} not in device configuration list.")
    device = devices[ordinal]
    return device["auto"] if "auto" in device else ipus_of_id(device["id"])


def ipus_of_id(index):
    """How many IPUs the id `index` of the inventory stands for.

    Raises InvalidArgumentError for an id that is not in the inventory.
    """
    count = ctypes.c_uint32()
    plugin.check(plugin.library().trm_tf_ipus_of_id, index, ctypes.byref(count))
    return count.value


def architecture():
    """That of the inventory's IPUs: "ipu1", "ipu2" or "ipu21"."""
    name = ctypes.create_string_buffer(16)
    plugin.check(plugin.library().trm_tf_architecture, name)
    return name.value.decode()


def reset_configuration():
    """Releases the IPUs and forgets the configuration."""
    global _devices
    _devices = None
    plugin.library().trm_tf_reset_configuration()


def reset_seed(seed, ordinal=0, identical_replicas=False):
    """Sets the seed of the random operations on the devices.

    All devices of a process have one seed, from which each draws numbers of its own. With
    `identical_replicas` every replica draws the same numbers.
    """
    del ordinal
    # The highest bit tells the engine not to mix in the replica's number.
    plugin.library().trm_tf_set_seed((seed & (2 ** 63 - 1)) | (bool(identical_replicas) << 63))


def clear_compilation_caches():
    """Has programs compiled again that run from now on."""
    plugin.library().trm_tf_forget_units()
