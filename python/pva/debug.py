"""debug.cbor: a sequence of CBOR maps. Reads what Tremula writes of CBOR: unsigned numbers, text,
maps of definite length (RFC 8949)."""

import os
import warnings


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
        self.at += length
        return kind, int.from_bytes(self.data[self.at - length:self.at], "big")

    def item(self):
        kind, number = self._head()
        if kind == 0:
            return number
        if kind == 3:
            self.at += number
            return self.data[self.at - number:self.at].decode(errors="replace")
        if kind == 5:
            return {self.item(): self.item() for _ in range(number)}
        raise ValueError(f"no CBOR that is written here (byte {self.at})")


def read_file(path):
    """The maps of a debug.cbor, in order."""
    with open(path, "rb") as file:
        reader = _Reader(file.read())
    maps = []
    while reader.at < len(reader.data):
        maps.append(reader.item())
    return maps


def _candidates(database):
    folder = os.path.dirname(database.path)
    for _ in range(4):
        yield os.path.join(folder, "debug.cbor")
        folder = os.path.dirname(folder)
    yield database.meta.get("debug_path") or ""
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
                  "overwritten it. Give its path to openReport.")
    return {}
