"""debug.cbor: a sequence of CBOR maps. Reads what Tremula writes of CBOR: unsigned numbers, text,
maps of definite length (RFC 8949)."""

import os
import warnings

from pva.sound import DamagedError


_MOST_DEPTH = 8


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def _head(self):
        first = self.data[self.at]
        self.at += 1
        kind, size = first >> 5, first & 31
        if size < 24:
            return kind, size
        if size > 27:
            raise ValueError(f"no CBOR that is written here (byte {self.at - 1})")
        length = 1 << (size - 24)
        return kind, int.from_bytes(self._take(length), "big")

    def _take(self, length):
        self.at += length
        if self.at > len(self.data):
            raise ValueError("it is cut short")
        return self.data[self.at - length:self.at]

    def item(self, depth=0):
        if self.at >= len(self.data):
            raise ValueError("it is cut short")
        kind, number = self._head()
        if kind == 0:
            return number
        if kind == 3:
            return self._take(number).decode(errors="replace")
        if kind == 5 and depth < _MOST_DEPTH:
            return {self._key(): self.item(depth + 1) for _ in range(number)}
        raise ValueError(f"no CBOR that is written here (byte {self.at})")

    def _key(self):
        return self.item(_MOST_DEPTH)  # no map


def read_file(path):
    """The maps of a debug.cbor, in order. Raises ValueError for a file that is damaged."""
    if not os.path.isfile(path):
        raise DamagedError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        reader = _Reader(file.read())
    maps = []
    try:
        while reader.at < len(reader.data):
            maps.append(reader.item())
            if not isinstance(maps[-1], dict):
                raise ValueError("a part of it is no map")
            if len(maps) > 1 and not isinstance(maps[-1].get("id"), int):
                raise ValueError("a context has no id")
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: {error}") from None
    return maps


def _candidates(database):
    folder = os.path.dirname(database.path)
    for _ in range(4):
        yield os.path.join(folder, "debug.cbor")
        folder = os.path.dirname(folder)
    path = database.meta.get("debug_path")
    yield path if isinstance(path, str) else ""
    yield os.path.join(os.getcwd(), "debug.cbor")


def read(database, path=None):
    """The contexts by id of the debug.cbor that belongs to a profile; {} if it is not found.

    Raises ValueError when `path` is given and belongs to another profile.
    """
    stream = database.meta.get("debug_stream")
    if path is None and not stream:
        return {}
    for candidate in [path] if path else _candidates(database):
        if not os.path.exists(candidate):
            continue
        maps = read_file(candidate)
        if maps and maps[0].get("stream") == stream:
            return {one["id"]: one for one in maps[1:]}
        if path:
            raise ValueError(f"{path} belongs to another profile")
    if path:
        raise FileNotFoundError(f"There is no {path}")
    warnings.warn("The debug.cbor of this profile was not found: a later program may have "
                  "overwritten it. Give its path to openReport.", stacklevel=2)
    return {}
