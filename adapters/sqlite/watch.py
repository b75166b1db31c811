"""Waiting for a commit: this process' own wakes a waiter at once, another process' is seen by asking.

`PRAGMA data_version` tells a connection that somebody else has committed; it costs microseconds, so a waiter
asks every few milliseconds and, while nothing happens, more and more rarely.
"""

from __future__ import annotations

import sqlite3
import threading
import time

from adapters.sqlite.database import Database
from ports.errors import Unavailable

QUICK, SLOW = 0.002, 0.02  # seconds between two questions, at first and in the end

Stamp = tuple[int, int]


class Watch:
    """One per store object; any number of threads may wait at it. `close` wakes them all."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._condition = threading.Condition()
        self._commits = 0
        self._asking = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def stamp(self) -> Stamp:
        """Take it before reading: after any later commit it differs. Raises Unavailable."""
        with self._asking, self._database.answering():
            if self._closed:
                raise Unavailable(self._database.path.name, "it was closed")
            if self._connection is None:
                self._connection = self._database.connect()
            return self._commits, self._connection.execute("PRAGMA data_version").fetchone()[0]

    def committed(self) -> None:
        """To be called after each commit of this process."""
        with self._condition:
            self._commits += 1
            self._condition.notify_all()

    def wait(self, seen: Stamp, deadline: float) -> None:
        """Return when the stamp may have changed, or at `deadline` (of `time.monotonic`)."""
        pause = QUICK
        while (left := deadline - time.monotonic()) > 0 and self.stamp() == seen:
            with self._condition:
                if self._commits == seen[0]:
                    self._condition.wait(min(pause, left))
            pause = min(pause * 1.5, SLOW)

    def close(self) -> None:
        with self._asking:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
        self.committed()
