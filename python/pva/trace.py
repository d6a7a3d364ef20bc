"""The host's timelines: what processes and threads did, out of .pvti files (PVTI_OPTIONS).

    trace = pva.openTrace("reports/Tue_Nov_24_11:59:17_2020_GMT_4532.pvti")
    for event in trace.processes[0].threads[0].events:
        print(event.label, event.duration, [child.label for child in event.children()])

Times are microseconds since 1970, durations microseconds. docs/profile_format.md lists the tables.
"""

import json
import math
import os
import sqlite3
import urllib.request

from pva.sound import DamagedError

FORMAT = 1

_TABLES = {
    "processes": "id:i name:t",
    "threads": "id:i process:i name:t",
    "channels": "id:i name:t",
    "events": "id:i thread:i channel:i parent:i ts_us:r dur_us:n label:t",
    "series": "id:i graph:t name:t unit:t",
    "points": "series:i ts_us:r value:r",
    "heatmaps": "id:i name:t unit:t edges:t",
    "counts": "heatmap:i ts_us:r counts:t",
}
_KINDS = {"i": ("integer",), "t": ("text",), "r": ("real", "integer"), "n": ("real", "null")}


class Event:
    """What happened on a thread: label, channel, timestamp, duration (None: a moment), children."""

    def __init__(self, row, channel):
        self.label, self.channel = row["label"], channel
        self.timestamp, self.duration = row["ts_us"], row["dur_us"]
        self._children = []

    def children(self):
        """The events inside it, in order."""
        return self._children

    def __repr__(self):
        return f"<Event {self.channel} {self.label!r}: {self.duration} us>"


class Thread:
    """A thread: id, name, events (the outermost ones, in order)."""

    def __init__(self, row):
        self.id, self.name, self.events = row["id"], row["name"], []


class Process:
    """A process: id, name (its command line), threads."""

    def __init__(self, row):
        self.id, self.name, self.threads = row["id"], row["name"], []


class Series:
    """A line of a diagram: graph, name, unit, points (time, value)."""

    def __init__(self, row):
        self.graph, self.name, self.unit, self.points = row["graph"], row["name"], row["unit"], []


class Heatmap:
    """A histogram over time: name, unit, edges, counts (time, how often between each two edges)."""

    def __init__(self, row):
        self.name, self.unit, self.counts = row["name"], row["unit"], []
        self.edges = _numbers(row["edges"])
        if len(self.edges) < 2 or sorted(set(self.edges)) != self.edges:
            raise DamagedError(f"the edges of the heatmap {self.name} do not rise")


def _numbers(text):
    """The numbers of a JSON array."""
    try:
        found = json.loads(text)
        if not isinstance(found, list) or not all(type(one) in (int, float) and
                                                  math.isfinite(one) for one in found):
            raise ValueError("no list of numbers")
    except ValueError as error:
        raise DamagedError(f"a list of numbers of a heatmap is damaged: {error}") from error
    return found


class Trace:
    """A timeline: processes, series, heatmaps, metadata."""

    def __init__(self, rows, metadata):
        self.metadata = metadata
        channels = {row["id"]: row["name"] for row in rows["channels"]}
        processes = {row["id"]: Process(row) for row in rows["processes"]}
        threads = {row["id"]: Thread(row) for row in rows["threads"]}
        for row in rows["threads"]:
            if row["process"] in processes:
                processes[row["process"]].threads.append(threads[row["id"]])
        events = {row["id"]: Event(row, channels.get(row["channel"], "")) for row in rows["events"]}
        for row in rows["events"]:
            parent = events.get(row["parent"]) if row["parent"] < row["id"] else None
            if parent:
                parent.children().append(events[row["id"]])
            elif row["thread"] in threads:
                threads[row["thread"]].events.append(events[row["id"]])
        series = {row["id"]: Series(row) for row in rows["series"]}
        for row in rows["points"]:
            if row["series"] in series:
                series[row["series"]].points.append((row["ts_us"], row["value"]))
        heatmaps = {row["id"]: Heatmap(row) for row in rows["heatmaps"]}
        for row in rows["counts"]:
            found, counts = heatmaps.get(row["heatmap"]), _numbers(row["counts"])
            if found and len(counts) != len(found.edges) - 1:
                raise DamagedError(f"the heatmap {found.name} lacks a count between two edges")
            if found:
                found.counts.append((row["ts_us"], counts))
        self.processes, self.series = list(processes.values()), list(series.values())
        self.heatmaps = list(heatmaps.values())


def openTrace(path):
    """A Trace. Raises FileNotFoundError, or ValueError for what is no .pvti file of Tremula's."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no timeline {path}")
    connection = sqlite3.connect(f"file:{urllib.request.pathname2url(os.path.abspath(path))}"
                                 "?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda text: text.decode(errors="replace")
    try:
        metadata = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        if metadata.get("format") != FORMAT:
            raise DamagedError(f"{path} has the format {metadata.get('format')}; this pva reads "
                               f"format {FORMAT}")
        return Trace({table: _rows(connection, path, table) for table in _TABLES}, metadata)
    except (sqlite3.Error, OverflowError) as error:
        raise DamagedError(f"{path} is no timeline that Tremula wrote, or is damaged: {error}") \
            from error
    finally:
        connection.close()


def _rows(connection, path, table):
    columns = [one.split(":") for one in _TABLES[table].split()]
    order = "ts_us" if ("ts_us", "r") in map(tuple, columns) else columns[0][0]
    wrong = " OR ".join(
        f"typeof({name}) NOT IN ({', '.join(map(repr, _KINDS[kind]))})" for name, kind in columns)
    if connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
        raise DamagedError(f"{path} is damaged: a value of its table {table} is of a wrong kind")
    return connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
