"""The SQLite file behind a report."""

import os
import sqlite3
import urllib.request

FORMAT = 2


class Database:
    """A profile.pop, opened for reading only.

    Raises FileNotFoundError if there is none, ValueError if the file is something else.
    """

    def __init__(self, path):
        if os.path.isdir(path):
            path = os.path.join(path, "profile.pop")
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no profile {path}")
        self.path = os.path.abspath(path)
        self._connection = sqlite3.connect(
            f"file:{urllib.request.pathname2url(self.path)}?mode=ro", uri=True)
        self._connection.row_factory = sqlite3.Row
        try:
            self.meta = dict(self.rows("SELECT key, value FROM meta"))
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is no profile: {error}") from None
        if self.meta.get("format") != FORMAT:
            raise ValueError(f"{self.path} has the format {self.meta.get('format')}; this pva "
                             f"reads format {FORMAT}")

    def rows(self, query, *values):
        """All rows of a query, as sqlite3.Row."""
        return self._connection.execute(query, values).fetchall()

    def pairs(self, table):
        """A table of keys and values as a dict."""
        return {row["key"]: row["value"] for row in self.rows(f"SELECT key, value FROM {table}")}
