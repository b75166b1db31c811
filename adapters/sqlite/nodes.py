"""Node records in SQLite: the operator's half and the scheduler's half in columns of their own, one version for both."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

from adapters.sqlite.database import Database
from ports import wire
from ports.errors import Conflict, Unavailable
from ports.nodes import NodeRecord, NodeSpec, NodeStatus


class SqliteNodes:
    """`ports.nodes.NodeRecords`. Versions are never given twice, also when a node is forgotten and comes back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> NodeRecord | None:
        with self._database.read() as db:
            row = db.execute("SELECT name, version, spec, status FROM nodes WHERE name = ?", (name,)).fetchone()
        return None if row is None else _record(*row)

    def list(self) -> tuple[NodeRecord, ...]:
        with self._database.read() as db:
            rows = db.execute("SELECT name, version, spec, status FROM nodes ORDER BY name").fetchall()
        return tuple(_record(*row) for row in rows)

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        with self._database.write() as db:
            status = _stored(db, record).status
            return _put(db, NodeRecord(record.name, record.spec, status))

    def put_status(self, record: NodeRecord) -> NodeRecord:
        with self._database.write() as db:
            spec = _stored(db, record).spec
            return _put(db, NodeRecord(record.name, spec, record.status))

    def delete(self, name: str) -> None:
        with self._database.write() as db:
            db.execute("DELETE FROM nodes WHERE name = ?", (name,))


def _stored(db: sqlite3.Connection, record: NodeRecord) -> NodeRecord:
    """The record to write over, which must be the version that the writer read; an empty one before the first write."""
    row = db.execute("SELECT name, version, spec, status FROM nodes WHERE name = ?", (record.name,)).fetchone()
    stored = NodeRecord(record.name) if row is None else _record(*row)
    if stored.version != record.version:
        raise Conflict(record.name)
    return stored


def _put(db: sqlite3.Connection, record: NodeRecord) -> NodeRecord:
    version: int = db.execute("UPDATE sequence SET nodes = nodes + 1 RETURNING nodes").fetchone()[0]
    db.execute(
        "INSERT INTO nodes VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version, spec = excluded.spec, "
        "status = excluded.status",
        (record.name, version, wire.dump(record.spec).encode(), wire.dump(record.status).encode()),
    )
    return NodeRecord(record.name, record.spec, record.status, str(version))


@lru_cache(1024)  # the same versions are read again and again
def _record(name: str, version: int, spec: bytes, status: bytes) -> NodeRecord:
    try:
        return NodeRecord(name, wire.load(spec, NodeSpec), wire.load(status, NodeStatus), str(version))
    except Exception as error:  # whatever json and cattrs raise
        raise Unavailable("a node record", f"the stored form of {name} can't be read: {type(error).__name__}") from error
