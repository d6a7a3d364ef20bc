"""Files that are read and written safely.

In folders where other users may write, only regular files are opened: opening a FIFO would block,
and writing through a link would change another file. A file gets its name when it is complete.
"""

import contextlib
import errno
import os
import stat
import threading


class NotRegularError(OSError):
    """Something else lies in the place of a file."""

    def __init__(self, path):
        super().__init__(errno.EINVAL, "it is not a regular file; remove it", path)


def opener(path, flags):
    """For open(..., opener=opener): raises NotRegularError for what is no regular file, and for a
    link where the file is written."""
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (os.O_NOFOLLOW if writes else 0)
    try:
        file = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise NotRegularError(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegularError(path)
    return file


def remove(path):
    """Removes a file, if it is there and can be removed."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def replacing(path):
    """A file to write to, which takes the place of `path` when it is complete, and is removed if
    writing fails. What is no regular file, such as /dev/stdout, is written directly."""
    path = os.fsdecode(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    unfinished = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
    remove(unfinished)
    try:
        with open(unfinished, "xb") as file:
            yield file
        os.replace(unfinished, path)
    except BaseException:
        remove(unfinished)
        raise
