"""The names of TensorFlow devices of the type IPU."""

import re

_NAME = re.compile(r"(?:^|[/:])(?:device:)?IPU:(\d+)$", re.IGNORECASE)


def ordinal(device):
    """The number N in a device's name, "/device:IPU:N". Raises ValueError for other devices."""
    match = _NAME.search(device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"{device!r} is not the name of an IPU device, such as '/device:IPU:0'.")
    return int(match.group(1))
