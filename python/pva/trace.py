"""Host traces (PVTI_OPTIONS): what libpvti recorded, as processes, threads and nested events."""

import contextlib
import os
import sqlite3

from pva.sound import DamagedError

_FORMAT = 1


class Event:
    """A mark: label, channel, timestamp and duration in microseconds; marks inside it."""

    def __init__(self, label, channel, timestamp, duration):
        self.label, self.channel = label, channel
        self.timestamp, self.duration = timestamp, duration
        self._children = []

    def children(self):
        """The marks that were made while this one was open, on the same thread."""
        return list(self._children)

    def __repr__(self):
        return f"<Event {self.label!r} of {self.channel}, {self.duration} us>"


class Thread:
    """A thread with its outermost events in the order of time."""

    def __init__(self, name, events):
        self.name, self.events = name, events


class Process:
    """A process; a .pvti file is of one."""

    def __init__(self, number, name, threads):
        self.id, self.name, self.threads = number, name, threads


class Series:
    """A line of a graph: `points` are pairs of microseconds and a number."""

    def __init__(self, graph, unit, name, points):
        self.graph, self.unit, self.name, self.points = graph, unit, name, points


class Trace:
    """What a .pvti file holds."""

    def __init__(self, processes, series):
        self.processes, self.series = processes, series


def openTrace(path):
    """Reads a .pvti file that libpvti wrote. Raises ValueError for another or damaged file."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no {path}")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{os.path.abspath(path)}?mode=ro",
                                                uri=True)) as database:
            return _read(path, database)
    except (sqlite3.Error, TypeError, KeyError) as error:
        raise DamagedError(f"{path} is no trace that can be read: {error}") from None


def _read(path, database):
    meta = dict(database.execute("SELECT key, value FROM meta"))
    if meta.get("format") != _FORMAT:
        raise DamagedError(f"{path} has the format {meta.get('format')}; this pva reads format "
                           f"{_FORMAT}")
    channels = dict(database.execute("SELECT id, name FROM channels"))
    events, outermost = {}, {}
    rows = database.execute("SELECT id, thread, channel, parent, label, start_us, duration_us "
                            "FROM events ORDER BY start_us, id").fetchall()
    for number, _, channel, _, label, start, duration in rows:
        events[number] = Event(label, channels[channel], start, duration)
    for number, thread, _, parent, *_ in rows:
        if parent in events and parent != number:
            events[parent]._children.append(events[number])
        else:
            outermost.setdefault(thread, []).append(events[number])
    threads = [Thread(name, outermost.get(number, []))
               for number, name in database.execute("SELECT id, name FROM threads ORDER BY id")]
    series = [Series(graph, unit, name, database.execute(
        "SELECT time_us, value FROM points WHERE series = ? ORDER BY time_us",
        (number,)).fetchall()) for number, graph, unit, name in database.execute(
            "SELECT id, graph, unit, name FROM series ORDER BY id").fetchall()]
    return Trace([Process(meta.get("process"), meta.get("name"), threads)], series)
