"""The number of the scheduler's term in SQLite: one row, raised by compare-and-swap."""

from __future__ import annotations

from adapters.sqlite.database import Database
from ports.errors import Conflict, Invalid


class SqliteEpochs:
    """`ports.leadership.Epochs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> int:
        with self._database.read() as db:
            newest: int = db.execute("SELECT newest FROM epoch").fetchone()[0]
        return newest

    def raise_to(self, epoch: int, seen: int) -> None:
        if epoch <= seen:
            raise Invalid(f"An epoch only grows: {epoch} is not above {seen}.", "epoch", "Give a number above the one seen.", str(epoch))
        with self._database.write() as db:
            if db.execute("UPDATE epoch SET newest = ? WHERE newest = ?", (epoch, seen)).rowcount != 1:
                raise Conflict("epoch")
