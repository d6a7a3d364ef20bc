"""Configuring the devices: from a configuration's snapshot to the plugin's settings.

A snapshot is what tremula.tf.ipu.config says it is. The plugin takes, for each TF device, the
options of the compiler as lines KEY=VALUE.
"""

import ctypes
import json

from tremula.tf.runtime import compile_options, plugin

_NO_ATTACHING = ("IPU Model: /device:IPU:{ordinal} is attached to no IPU; programs are "
                 "compiled for {count}")


def configure(snapshot_json):
    """Sets up the TF devices that a configuration names, and attaches them to IPUs.

    Raises TensorFlow's errors where no such IPUs are free.
    """
    snapshot = json.loads(snapshot_json)
    plugin.load()
    library = plugin.library()
    library.trm_tf_reset_configuration()
    values, options = snapshot["flags"], snapshot["options"]
    for ordinal, device in enumerate(snapshot["devices"] or [{"auto": 1}]):
        lines = compile_options.lines(snapshot, device, _ipus_of_id)
        plugin.check(library.trm_tf_configure, ordinal, lines.encode(),
                     values["executable_cache_path"].encode())
        if values["use_ipu_model"]:
            count = device.get("auto", 1)
            plugin.log(_NO_ATTACHING.format(
                ordinal=ordinal, count=f"{count} IPU" + ("s" if count > 1 else "")))
        elif options.get("device_connection.type", "ALWAYS") in ("ALWAYS", "ON_DEMAND"):
            _attach(ordinal, device, values)


def _ipus_of_id(index):
    """How many IPUs an id of the default inventory stands for: 16 IPUs, then the groups."""
    for last, count in ((15, 1), (23, 2), (27, 4), (29, 8)):
        if index <= last:
            return count
    return 16


def _attach(ordinal, device, values):
    ids = [device["id"]] if "id" in device else []
    patient = values["use_on_demand"]
    plugin.check(plugin.library().trm_tf_attach, ordinal, device.get("auto", 0),
                 (ctypes.c_uint32 * (len(ids) + 1))(*ids), len(ids),
                 values["on_demand_device_timeout"] if patient else 0,
                 values["on_demand_device_poll_time"])


def reset_configuration():
    """Lets the IPUs go and forgets the configuration."""
    plugin.library().trm_tf_reset_configuration()


def reset_seed(seed, ordinal=0, identical_replicas=False):
    """Sets the seed of the random operations on the devices.

    All devices of a process have one seed. With `identical_replicas` every replica draws the same
    numbers.
    """
    del ordinal
    # The highest bit tells the engine not to mix in the replica's number.
    plugin.library().trm_tf_set_seed((seed & (2 ** 63 - 1)) | (bool(identical_replicas) << 63))


def clear_compilation_caches():
    """Programs are compiled again when the configuration changes; until then one that is compiled
    stays right, so there is nothing that a program could notice to be cleared."""
