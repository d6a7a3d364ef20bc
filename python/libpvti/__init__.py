"""Marks and numbers of a program for the System Analyser, as programs of SDK 2.0 and later give
them: `import libpvti as pvti`.

Tremula writes no traces. So the calls are checked and do what they say of the program, such as
running the functions that they wrap; what they mark is recorded nowhere. Where PVTI_OPTIONS asks
for a trace, a warning says so, once in a process.
"""

import functools
import json
import logging
import os

_WARNING = (
    "PVTI_OPTIONS is set, but Tremula writes no traces for the System Analyser: what this process "
    "marks with libpvti is not kept. POPLAR_ENGINE_OPTIONS='{\"autoReport.all\":\"true\"}' "
    "writes a profile, with the steps of each run.")


def _read_options(text):
    """(whether a trace is wanted, the names of its channels or () for all) of PVTI_OPTIONS. As in
    the original, a text that cannot be read wants one of everything."""
    if not text:
        return False, ()
    try:
        options = json.loads(text)
        wanted = str(options.get("enable", True)).lower() not in ("false", "0")
        return wanted, tuple(options.get("channels", ()))
    except (AttributeError, TypeError, ValueError):
        return True, ()


_wanted, _wanted_channels = _read_options(os.environ.get("PVTI_OPTIONS"))
if _wanted:
    logging.getLogger("libpvti").warning(_WARNING)


# ---- Channels ----

class TraceChannel:
    """What marks are sorted by: createTraceChannel() makes one."""

    def __init__(self, name):
        self.name = _text("The name of a channel", name)
        self._enabled = _wanted and (not _wanted_channels or name in _wanted_channels)


_channels = []


def createTraceChannel(name):
    """A new channel."""
    channel = TraceChannel(name)
    _channels.append(channel)
    return channel


def enableTraceChannel(channel):
    """Switches a channel on; nothing where PVTI_OPTIONS asks for no trace."""
    _channel(channel)._enabled = _wanted


def disableTraceChannel(channel):
    """Switches a channel off."""
    _channel(channel)._enabled = False


def checkTraceChannel(channel):
    """Whether a channel is on."""
    return _channel(channel)._enabled


def listTraceChannel():
    """[name, whether it is on] of each channel."""
    return [[one.name, one._enabled] for one in _channels]


def getCurrentTraceFilename():
    """The name of the trace that is being written: none is, so it is empty."""
    return ""


def closeTrace():
    """Ends the trace: there is none."""


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
        _channel(channel), _text("A label", label)

    @staticmethod
    def end(channel, label):
        """Marks where what began under that label ends."""
        _channel(channel), _text("A label", label)

    @staticmethod
    def event(channel, label):
        """Marks a moment."""
        _channel(channel), _text("A label", label)


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
        return Series(name)


class Series:
    """A line in a Graph."""

    def __init__(self, name):
        self.name = _text("The name of a series", name)

    def add(self, value):
        """Adds a number, at this time."""
        float(value)


class HeatmapDouble:
    """How often numbers are between each two of the `edges`, which rise, over time."""

    def __init__(self, name, edges, unit=""):
        self.name, self.unit = _text("The name of a heatmap", name), _text("A unit", unit)
        self.edges = [float(one) for one in edges]
        if len(self.edges) < 2 or sorted(set(self.edges)) != self.edges:
            raise ValueError("The edges of a heatmap must be two or more numbers that rise, but "
                             f"they are {edges!r}.")

    def add(self, values):
        """Counts a list of numbers, at this time."""
        for one in values:
            float(one)


def _channel(channel):
    if not isinstance(channel, TraceChannel):
        raise TypeError("A channel of libpvti must be what createTraceChannel() returns, but it "
                        f"is {channel!r}.")
    return channel


def _text(what, value):
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, but it is {value!r}.")
    return value


traceDrivers = createTraceChannel("Drivers")
tracePoplar = createTraceChannel("Poplar")
traceFramework = createTraceChannel("Framework")
