"""vars.capnp: a Cap'n Proto message of one segment (data/schema/vars.capnp), by hand, so that the
standard library is enough."""

import os
import struct

from pva.sound import DamagedError

_MOST_TILES = 1 << 26  # of all IPUs


class _Segment:
    def __init__(self, data):
        segments, words = struct.unpack_from("<II", data)
        if segments != 0 or len(data) < 8 * (words + 1):
            raise ValueError("it is cut short or of another kind")
        self.data = memoryview(data)[8:8 * (words + 1)]
        self.remaining = 4 * words + 64  # lists that lie over each other could be read without end

    def _pointer(self, word):
        value, = self.unpack("<Q", word)
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
        tag, = self.unpack("<Q", target)
        count, size = (tag & 0xffffffff) >> 2, (tag >> 32 & 0xffff) + (tag >> 48)
        self.remaining -= count
        if self.remaining < 0 or 8 * (target + 1 + count * size) > len(self.data):
            raise ValueError("a list is longer than the file")
        return [target + 1 + i * size for i in range(count)]

    def text(self, word):
        _, target, sizes = self._pointer(word)
        if target < 0 or 8 * target + (sizes >> 3) > len(self.data):
            raise ValueError("a text is longer than the file")
        length = max(0, (sizes >> 3) - 1)
        return bytes(self.data[8 * target:8 * target + length]).decode(errors="replace")

    def unpack(self, layout, word):
        if word < 0:
            raise ValueError("a pointer leads out of the file")
        return struct.unpack_from(layout, self.data, 8 * word)


def read(path):
    """(distributions, variables): a distribution is a list of runs (first tile, tiles, bytes on
    each), a variable a dict of the fields of the schema. Raises ValueError for a file that is
    damaged."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no {path}")
    if not os.path.isfile(path):
        raise DamagedError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        data = file.read()
    try:
        return _read(_Segment(data))
    except (ValueError, struct.error) as error:
        raise DamagedError(f"{path} is damaged: {error}") from None


def _read(segment):
    _, pointers = segment.root()
    distributions = [[segment.unpack("<IIQ", run) for run in segment.structs(one + 1)]
                     for one in segment.structs(pointers)]
    for runs in distributions:
        for first, count, _ in runs:
            if first + count > _MOST_TILES:
                raise ValueError("bytes are on tiles that are not there")
    variables = []
    for one in segment.structs(pointers + 1):
        debug_id, distribution, first, end, category, flags = segment.unpack("<QIIIHH", one)
        if distribution >= len(distributions):
            raise ValueError("a variable has a distribution that is not there")
        variables.append({"debugId": debug_id, "distribution": distribution, "firstStep": first,
                          "endStep": end, "category": category, "alwaysLive": bool(flags & 1),
                          "name": segment.text(one + 3)})
    return distributions, variables
