"""vars.capnp: a Cap'n Proto message of one segment (data/schema/vars.capnp), by hand, so that the
standard library is enough."""

import struct


class _Segment:
    def __init__(self, data):
        segments, words = struct.unpack_from("<II", data)
        if segments != 0 or len(data) < 8 * (words + 1):
            raise ValueError("vars.capnp is cut short or of another kind")
        self.data = memoryview(data)[8:]

    def _pointer(self, word):
        value, = struct.unpack_from("<Q", self.data, 8 * word)
        offset = (value & 0xffffffff) >> 2
        if offset & 1 << 29:
            offset -= 1 << 30
        return value & 3, word + 1 + offset, value >> 32

    def root(self):
        """The root's first word, and that of its pointers."""
        _, target, sizes = self._pointer(0)
        return target, target + (sizes & 0xffff)

    def structs(self, word):
        """The first words of the structs of a list."""
        kind, target, _ = self._pointer(word)
        if kind != 1:
            return []
        tag, = struct.unpack_from("<Q", self.data, 8 * target)
        count, size = (tag & 0xffffffff) >> 2, (tag >> 32 & 0xffff) + (tag >> 48)
        return [target + 1 + i * size for i in range(count)]

    def text(self, word):
        _, target, sizes = self._pointer(word)
        return bytes(self.data[8 * target:8 * target + (sizes >> 3) - 1]).decode(errors="replace")

    def unpack(self, layout, word):
        return struct.unpack_from(layout, self.data, 8 * word)


def read(path):
    """(distributions, variables): a distribution is a list of runs (first tile, tiles, bytes on
    each), a variable a dict of the fields of the schema."""
    with open(path, "rb") as file:
        segment = _Segment(file.read())
    _, pointers = segment.root()
    distributions = [[segment.unpack("<IIQ", run) for run in segment.structs(one + 1)]
                     for one in segment.structs(pointers)]
    variables = []
    for one in segment.structs(pointers + 1):
        debug_id, distribution, first, end, category, flags = segment.unpack("<QIIIHH", one)
        variables.append({"debugId": debug_id, "distribution": distribution, "firstStep": first,
                          "endStep": end, "category": category, "alwaysLive": bool(flags & 1),
                          "name": segment.text(one + 3)})
    return distributions, variables
