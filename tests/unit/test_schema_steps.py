"""What an earlier release has stored is read and written on by this one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from attrs import evolve

from adapters.sqlite.database import Database, Schema
from adapters.sqlite.schema import GRIDWEAVE, open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from ports import wire
from tests.contract.samples import a_job

BEFORE = Schema(GRIDWEAVE.purpose, GRIDWEAVE.steps[:1])  # the sequence's newest number had a column of its own


def insert(db: sqlite3.Connection, key: str, seq: int, at: int) -> None:
    job = a_job(key, at=at)
    row = (job.id, seq, job.created_at.ms, job.spec.user, job.status.phase.value, job.spec.name, job.schema, wire.dump(job).encode())
    db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def test_the_sequence_goes_on_where_it_was(tmp_path: Path) -> None:
    """A number that comes again would hide a change from whoever follows, and let an old version pass as the newest."""
    with closing(Database(tmp_path / "gridweave.db", BEFORE)) as old, old.write() as db:
        insert(db, "job-1", 2, at=2000)
        insert(db, "job-2", 5, at=1000)
        db.execute("INSERT INTO tombstones VALUES (7, 'job-3')")
        db.execute("UPDATE sequence SET jobs = 7")
    with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as store:
        cursor = store.changes("").cursor
        assert cursor.endswith(":7")
        assert ["job-2", "job-1"] == [job.id for job in store.list().jobs]
        first = store.get("job-1")
        assert first is not None
        assert "8" == store.replace(evolve(first, status=evolve(first.status, waiting="for room"))).version
        assert "9" == store.create(a_job("job-3")).version
        told = store.changes(cursor)
        assert (["job-1", "job-3"], ()) == ([job.id for job in told.jobs], told.deleted)
