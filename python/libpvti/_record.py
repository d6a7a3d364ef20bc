"""The file of a trace: SQLite 3, which docs/profile_format.md describes ("Host traces").

Marks are kept in memory and written together, at the latest when the process ends, so that a mark
costs a clock and an append.
"""

import atexit
import os
import sqlite3
import sys
import threading
import time

FORMAT = 1
_MOST_KEPT = 4096

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value);
CREATE TABLE threads(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE channels(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE events(id INTEGER PRIMARY KEY, thread INTEGER, channel INTEGER, parent INTEGER,
  label TEXT, start_us INTEGER, duration_us INTEGER);
CREATE TABLE series(id INTEGER PRIMARY KEY, graph TEXT, unit TEXT, name TEXT);
CREATE TABLE points(series INTEGER, time_us INTEGER, value REAL);
CREATE TABLE heatmaps(id INTEGER PRIMARY KEY, name TEXT, unit TEXT, edges TEXT);
CREATE TABLE counts(heatmap INTEGER, time_us INTEGER, counts TEXT);
"""


def _name():
    """As the original names them: Tue_Nov_24_11:59:17_2020_GMT_4532.pvti."""
    return time.strftime("%a_%b_%d_%H:%M:%S_%Y_GMT", time.gmtime()) + f"_{os.getpid()}.pvti"


class Recorder:
    """Writes one process's trace; a child that was forked writes one of its own."""

    def __init__(self, directory):
        self._directory = directory
        self._lock = threading.RLock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def _forget(self):
        self.path = ""
        self._database = None
        self._process = os.getpid()
        self._kept = []
        self._numbers = {}
        self._next_event = 1
        self._open = {}  # of each thread: a list of (channel, label, id, start)
        self._lock = threading.RLock()
        self._start = time.time_ns() - time.perf_counter_ns()

    def now(self):
        """Microseconds since 1970 that never go back."""
        return (self._start + time.perf_counter_ns()) // 1000

    def _keep(self, table, *values):
        self._kept.append((table, values))
        if len(self._kept) >= _MOST_KEPT:
            self.flush()

    def number(self, table, key, *values):
        """The id of a row that is written once: a thread, a channel, a series, a heatmap."""
        with self._lock:
            ids = self._numbers.setdefault(table, {})
            if key not in ids:
                ids[key] = len(ids)
                self._keep(table, ids[key], *values)
            return ids[key]

    def _thread(self):
        thread = threading.current_thread()
        return self.number("threads", thread.ident, thread.name)

    def begin(self, channel, label):
        with self._lock:
            marks = self._open.setdefault(threading.get_ident(), [])
            marks.append((channel, label, self._next_event, self.now()))
            self._next_event += 1

    def end(self, channel, label):
        """Ends the last mark of this thread with that label; one that has not begun is left out."""
        with self._lock:
            now = self.now()
            marks = self._open.get(threading.get_ident(), [])
            for place in range(len(marks) - 1, -1, -1):
                if marks[place][:2] == (channel, label):
                    _, _, event, start = marks.pop(place)
                    self._event(event, channel, label, start, now - start, marks[:place])
                    return

    def event(self, channel, label):
        with self._lock:
            marks = self._open.get(threading.get_ident(), [])
            event, self._next_event = self._next_event, self._next_event + 1
            self._event(event, channel, label, self.now(), 0, marks)

    def _event(self, event, channel, label, start, duration, around):
        self._keep("events", event, self._thread(), self.number("channels", channel, channel),
                   around[-1][2] if around else 0, label, start, duration)

    def point(self, graph, unit, name, value):
        with self._lock:
            series = self.number("series", (graph, unit, name), graph, unit, name)
            self._keep("points", series, self.now(), value)

    def counts(self, name, unit, edges, counts):
        with self._lock:
            heatmap = self.number("heatmaps", (name, unit, edges), name, unit, edges)
            self._keep("counts", heatmap, self.now(), counts)

    def flush(self):
        """Writes what is kept. A file that cannot be written ends the trace, with a warning."""
        with self._lock:
            if self._process != os.getpid() or not self._kept:
                return
            try:
                self._write()
            except (OSError, sqlite3.Error) as error:
                import logging
                logging.getLogger("libpvti").warning(
                    "The trace %s cannot be written (%s): this process is not traced any more.",
                    self.path, error)
                self._keep = lambda *arguments: None
            self._kept.clear()

    def _write(self):
        if self._database is None:
            os.makedirs(self._directory, exist_ok=True)
            self.path = os.path.join(self._directory, _name())
            while os.path.exists(self.path):  # another trace of this process, in the same second
                self.path = self.path[:-len(".pvti")] + "_.pvti"
            self._database = sqlite3.connect(self.path, check_same_thread=False)
            self._database.executescript(_SCHEMA)
            self._database.executemany("INSERT INTO meta VALUES(?, ?)", [
                ("format", FORMAT), ("process", os.getpid()), ("name", os.path.basename(
                    sys.argv[0] if sys.argv and sys.argv[0] else sys.executable))])
        for table, values in self._kept:
            marks = ", ".join("?" * len(values))
            self._database.execute(f"INSERT INTO {table} VALUES({marks})", values)
        self._database.commit()

    def close(self):
        """Ends what has not ended, and the file. Later marks begin a new file."""
        with self._lock:
            now = self.now()
            for marks in self._open.values():
                for place, (channel, label, event, start) in enumerate(marks):
                    self._event(event, channel, label, start, now - start, marks[:place])
            self._open.clear()
            self.flush()
            if self._database is not None and self._process == os.getpid():
                self._database.close()
            self._forget()
