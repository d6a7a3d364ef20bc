"""Marks and numbers of a program on the host's timeline: `import libpvti as pvti`.

    PVTI_OPTIONS='{"enable":"true","directory":"reports"}' python program.py

writes reports/<date>_<process>.pvti, with the library's own marks and those of the program;
`pva.openTrace` reads the file, `tremula trace` exports it for Perfetto, and the browser analyser
shows it. Without PVTI_OPTIONS the calls are checked and record nothing. C programs have the same
functions (tremula/timeline.h, docs/profile_format.md).
"""

import ctypes
import functools
import os


@functools.cache
def _library():
    """The C library, where PVTI_OPTIONS is set; else None, and nothing is recorded."""
    if not os.environ.get("PVTI_OPTIONS"):
        return None
    from tremula import core  # programs without a timeline need not load the library
    library = core.library()
    for name, (result, arguments) in {
            "channel": (ctypes.c_int32, [ctypes.c_char_p]),
            "enable": (None, [ctypes.c_int32, ctypes.c_bool]),
            "records": (ctypes.c_bool, [ctypes.c_int32]),
            "begin": (None, [ctypes.c_int32, ctypes.c_char_p]),
            "end": (None, [ctypes.c_int32, ctypes.c_char_p]),
            "event": (None, [ctypes.c_int32, ctypes.c_char_p]),
            "series": (ctypes.c_int32, [ctypes.c_char_p] * 3),
            "add": (None, [ctypes.c_int32, ctypes.c_double]),
            "heatmap": (ctypes.c_int32, [ctypes.c_char_p, ctypes.c_char_p,
                                         ctypes.POINTER(ctypes.c_double), ctypes.c_size_t]),
            "count": (None, [ctypes.c_int32, ctypes.POINTER(ctypes.c_double), ctypes.c_size_t]),
            "metadata": (None, [ctypes.c_char_p] * 2),
            "file": (ctypes.c_char_p, []),
            "close": (None, [])}.items():
        function = getattr(library, f"trm_timeline_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _call(name, *arguments, otherwise=None):
    """Calls trm_timeline_<name>; `otherwise` where nothing is recorded."""
    library = _library()
    return otherwise if library is None else getattr(library, f"trm_timeline_{name}")(*arguments)


def _numbers(values):
    values = [float(one) for one in values]
    return (ctypes.c_double * len(values))(*values), len(values)


def _text(what, value):
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, but it is {value!r}.")
    return value


# ---- Channels ----

class TraceChannel:
    """A channel, by which marks are sorted: createTraceChannel() makes one."""

    def __init__(self, name, number=None):
        self.name = _text("The name of a channel", name)
        self._number = _call("channel", name.encode()) if number is None else number


_channels = [TraceChannel(name, number)
             for number, name in enumerate(("Drivers", "Poplar", "Framework"))]


def createTraceChannel(name):
    """A new channel."""
    channel = TraceChannel(name)
    _channels.append(channel)
    return channel


def enableTraceChannel(channel):
    """Switches a channel on. Without PVTI_OPTIONS it does nothing."""
    _call("enable", _channel(channel)._number, True)


def disableTraceChannel(channel):
    """Switches a channel off."""
    _call("enable", _channel(channel)._number, False)


def checkTraceChannel(channel):
    """Whether a channel is on."""
    return _call("records", _channel(channel)._number, otherwise=False)


def listTraceChannel():
    """[name, whether it is on] of each channel."""
    return [[one.name, checkTraceChannel(one)] for one in _channels]


def getCurrentTraceFilename():
    """The path of the file that is being written; empty where none is."""
    return _call("file", otherwise=b"").decode()


def closeTrace():
    """Writes the last rows and ends the trace. The end of the process does the same."""
    _call("close")


def _channel(channel):
    if not isinstance(channel, TraceChannel):
        raise TypeError("A channel of libpvti must be what createTraceChannel() returns, but it "
                        f"is {channel!r}.")
    return channel


# ---- Marks ----

class Tracepoint:
    """Marks what happens in a `with` block, under a label on a channel."""

    def __init__(self, channel, label):
        self._channel, self._label = _channel(channel), _text("A label", label)

    def __enter__(self):
        Tracepoint.begin(self._channel, self._label)
        return self

    def __exit__(self, *_):
        Tracepoint.end(self._channel, self._label)

    @staticmethod
    def begin(channel, label):
        """Marks where something begins."""
        _call("begin", _channel(channel)._number, _text("A label", label).encode())

    @staticmethod
    def end(channel, label):
        """Marks the end of what begin() marked with the same label."""
        _call("end", _channel(channel)._number, _text("A label", label).encode())

    @staticmethod
    def event(channel, label):
        """Marks a moment."""
        _call("event", _channel(channel)._number, _text("A label", label).encode())


def instrument_fn(channel):
    """A decorator: marks each call of a function."""
    _channel(channel)

    def decorate(function):
        label = getattr(function, "__qualname__", repr(function))

        @functools.wraps(function)
        def call(*args, **kwargs):
            with Tracepoint(channel, label):
                return function(*args, **kwargs)

        return call

    return decorate


def instrument(obj, methods, channel):
    """Marks each call of those methods of an object, which are given by their names."""
    for name in methods:
        setattr(obj, name, instrument_fn(channel)(getattr(obj, name)))


# ---- Numbers ----

class Graph:
    """A diagram of numbers over time."""

    def __init__(self, name, unit=""):
        self.name, self.unit = _text("The name of a graph", name), _text("A unit", unit)

    def addSeries(self, name):
        """A new line in it."""
        return Series(self, name)


class Series:
    """A line in a Graph."""

    def __init__(self, graph, name):
        self.name = _text("The name of a series", name)
        self._number = _call("series", graph.name.encode(), name.encode(), graph.unit.encode())

    def add(self, value):
        """Adds a number, at this time."""
        _call("add", self._number, float(value))


class HeatmapDouble:
    """A histogram over time: how many numbers are between each two of `edges`, a rising list of
    at least two. Raises ValueError for other edges."""

    def __init__(self, name, edges, unit=""):
        self.name, self.unit = _text("The name of a heatmap", name), _text("A unit", unit)
        self.edges = [float(one) for one in edges]
        if len(self.edges) < 2 or sorted(set(self.edges)) != self.edges:
            raise ValueError("The edges of a heatmap must be two or more numbers that rise, but "
                             f"they are {edges!r}.")
        self._number = _call("heatmap", name.encode(), unit.encode(), *_numbers(self.edges))

    def add(self, values):
        """Counts a list of numbers, at this time."""
        _call("count", self._number, *_numbers(values))


def addMetadata(key, value):
    """Notes a fact about the process."""
    _call("metadata", _text("A key", key).encode(), str(value).encode())


traceDrivers, tracePoplar, traceFramework = _channels
