"""TensorFlow devices of the type IPU: their names, and how many IPUs they have."""

import re

from tremula.tf.ipu import config

_NAME = re.compile(r"(?:^|[/:])(?:device:)?IPU:(\d+)$", re.IGNORECASE)


def ordinal(device):
    """The number N in a device's name, "/device:IPU:N". Raises ValueError for other devices."""
    match = _NAME.search(device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"{device!r} is not the name of an IPU device, such as '/device:IPU:0'.")
    return int(match.group(1))


def num_ipus(device_ordinal):
    """How many IPUs /device:IPU:`device_ordinal` has in the configuration in force.

    Raises RuntimeError if there is none, ValueError if it does not name the device,
    InvalidArgumentError if the inventory has not the id that it names.
    """
    chosen = config.get_ipu_config()[0].device_config
    if not chosen and device_ordinal == 0:
        return 1  # nothing selected: a device of one IPU
    if device_ordinal >= len(chosen):
        raise ValueError(f"Device ordinal {device_ordinal} not in device configuration list.")
    device = chosen[device_ordinal]
    if device.WhichOneof("device_selection") == "auto_count":
        return device.auto_count
    from tremula.tf.runtime import settings
    return settings.ipus_of_id(device.cfg_index)
