"""The module `imghdr`, which Python 3.13 dropped: the kind of an image by its first bytes."""

# Kind, where its bytes begin, and the bytes; PNG's and others' own specifications have them.
_MARKS = (
    ("jpeg", 6, b"JFIF"), ("jpeg", 6, b"Exif"), ("jpeg", 0, b"\xff\xd8\xff"),
    ("png", 0, b"\x89PNG\r\n\x1a\n"), ("gif", 0, b"GIF87a"), ("gif", 0, b"GIF89a"),
    ("tiff", 0, b"MM"), ("tiff", 0, b"II"), ("rgb", 0, b"\x01\xda"),
    ("rast", 0, b"\x59\xa6\x6a\x95"), ("xbm", 0, b"#define "), ("bmp", 0, b"BM"),
    ("webp", 8, b"WEBP"), ("exr", 0, b"v/1\x01"))

_NETPBM = {b"P1": "pbm", b"P4": "pbm", b"P2": "pgm", b"P5": "pgm", b"P3": "ppm", b"P6": "ppm"}


def what(file, h=None):
    """The kind of an image, such as "png", or None: of the bytes `h`, or of a file, which is a path
    or is open."""
    if h is None and hasattr(file, "read"):
        place = file.tell()
        h = file.read(32)
        file.seek(place)
    elif h is None:
        with open(file, "rb") as opened:
            h = opened.read(32)
    for kind, place, mark in _MARKS:
        if h.startswith(mark, place):
            return kind
    return _NETPBM.get(h[:2]) if h[2:3] in (b" ", b"\t", b"\n", b"\r") else None
