"""Usage events kept for whoever meters: written once per id, read on from a number."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.sqlite.database import Database
from ports import wire
from ports.metering import Usage


class SqliteMetering:
    """`ports.metering.Metering`, in `credits.db`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, usage: Sequence[Usage]) -> None:
        if not usage:
            return
        with self._database.write() as db:
            db.executemany(
                "INSERT INTO usage (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
                ((each.id, wire.dump(each).encode()) for each in usage),
            )

    def recorded(self, after: int = 0, limit: int = 1000) -> tuple[tuple[int, Usage], ...]:
        """Events with a number above `after`, oldest first, each with its number. Raises Unavailable."""
        with self._database.read() as db:
            rows = db.execute("SELECT seq, body FROM usage WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)).fetchall()
        return tuple((seq, wire.load(body, Usage)) for seq, body in rows)
