"""IpuTraceEvent, in place of the original's protocol buffer: what happened on a device, and when.

Serialised, an event is JSON.
"""

import dataclasses
import json


@dataclasses.dataclass
class IpuTraceEvent:
    """One event: `type`, `timestamp` in seconds since 1970, the device's `ordinal`, and the texts
    that go with its type."""

    COMPILE_BEGIN = 0
    COMPILE_END = 1
    HOST_TO_DEVICE_TRANSFER = 2
    DEVICE_TO_HOST_TRANSFER = 3
    LOAD_ENGINE = 4
    EXECUTE = 5

    type: int = COMPILE_BEGIN
    timestamp: float = 0.0
    ordinal: int = 0
    module_name: str = ""
    compilation_report: str = ""
    serialized_graph: str = ""
    execution_report: str = ""
    data_transfer: str = ""

    def SerializeToString(self):
        """The event as bytes."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def FromString(cls, data):
        """The event in SerializeToString()'s bytes. Raises ValueError for others."""
        return cls(**json.loads(data))
