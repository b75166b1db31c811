"""Tariffs in SQLite: versions are added one after another, and none is ever changed."""

from __future__ import annotations

from adapters.sqlite.database import Database
from ports import wire
from ports.errors import Conflict, NotFound
from ports.tariffs import Tariff
from ports.units import Instant


class SqliteTariffs:
    """`ports.tariffs.Tariffs`. Who wires it publishes the first version, from the settings."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def in_force(self, at: Instant) -> Tariff:
        with self._database.read() as db:
            wanted = "SELECT body FROM tariffs WHERE effective <= ? ORDER BY effective DESC, version DESC LIMIT 1"
            row = db.execute(wanted, (at.ms,)).fetchone()
        if row is None:
            raise NotFound("No tariff is in force at that time.", "tariff", "Publish one that is effective from then or before.")
        return wire.load(row[0], Tariff)

    def history(self) -> tuple[Tariff, ...]:
        with self._database.read() as db:
            rows = db.execute("SELECT body FROM tariffs ORDER BY version").fetchall()
        return tuple(wire.load(row[0], Tariff) for row in rows)

    def publish(self, tariff: Tariff) -> Tariff:
        with self._database.write() as db:
            newest = db.execute("SELECT coalesce(max(version), 0) FROM tariffs").fetchone()[0]
            if tariff.version != newest + 1:
                raise Conflict(f"tariff {tariff.version}")
            db.execute("INSERT INTO tariffs VALUES (?, ?, ?)", (tariff.version, tariff.effective.ms, wire.dump(tariff).encode()))
        return tariff
