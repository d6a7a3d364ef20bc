"""The SQLite file behind a report."""

import os
import sqlite3
import urllib.request

from pva import sound

FORMAT = 2

_WORK_STEP = 1_000_000  # SQLite's instructions between two looks at how much was done


class Database:
    """A profile.pop, opened for reading only.

    Raises FileNotFoundError if there is none, ValueError if the file is something else, or is
    damaged: now, or when what is damaged is read.
    """

    def __init__(self, path):
        if os.path.isdir(path):
            path = os.path.join(path, "profile.pop")
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no profile {path}")
        self.path = os.path.abspath(path)
        if not os.path.isfile(path):
            raise sound.DamagedError(f"{self.path} is no profile: it is not a regular file")
        self._sound, self._work = set(), 0
        # A damaged tree of pages can be walked for ever. No sound profile needs as much work.
        self._most_work = 1000 + os.path.getsize(path) // 4000
        self._connection = sqlite3.connect(
            f"file:{urllib.request.pathname2url(self.path)}?mode=ro", uri=True)
        self._connection.row_factory = sqlite3.Row
        self._connection.text_factory = lambda text: text.decode(errors="replace")
        self._connection.set_progress_handler(self._spend, _WORK_STEP)
        try:
            kinds = {row["name"]: row["type"] for row in self.execute(
                "SELECT name, CASE WHEN sql LIKE 'CREATE TABLE%' THEN 'table' WHEN type = 'view' "
                "AND sql NOT LIKE '%WITH%' THEN 'view' END AS type FROM sqlite_master")}
            self.meta = self.execute_pairs("meta")
        except sound.DamagedError as error:
            raise sound.DamagedError(f"{self.path} is no profile: {error.__cause__ or error}") \
                from None
        if self.meta.get("format") != FORMAT:
            raise sound.DamagedError(f"{self.path} has the format {self.meta.get('format')}; this "
                                     f"pva reads format {FORMAT}")
        for table in sound.COLUMNS:
            if kinds.get(table) != ("view" if table in sound.VIEWS else "table"):
                raise sound.DamagedError(f"{self.path} is damaged: its table {table} is missing or "
                                         "another")
        self._kinds = kinds
        self.check("meta")

    def has(self, table):
        """Whether the profile has one of the tables that older profiles lack."""
        return self._kinds.get(table) == "table"

    def _spend(self):
        self._work += 1
        return self._work > self._most_work

    def execute(self, query, *values):
        """All rows of a query, as sqlite3.Row, of whatever is there."""
        self._work = 0
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            why = ("reading it does not end" if self._work > self._most_work else error)
            raise sound.DamagedError(f"{self.path} is damaged: {why}") from error

    def check(self, table):
        """Makes sure that a table is sound (pva.sound), once. Raises ValueError."""
        if table not in self._sound:
            sound.check(self, table)
            self._sound.add(table)

    def rows(self, tables, query, *values):
        """All rows of a query over sound tables, the names of which are in `tables`."""
        for table in tables.split():
            self.check(table)
        return self.execute(query, *values)

    def execute_pairs(self, table):
        return {row["key"]: row["value"]
                for row in self.execute(f"SELECT key, value FROM {table}")}

    def pairs(self, table):
        """A table of keys and values as a dict."""
        self.check(table)
        return self.execute_pairs(table)
