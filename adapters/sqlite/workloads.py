"""Workloads in SQLite.

Each write takes the next number of one growing sequence, and that number is the job's version. What changed
after a cursor is therefore what has a higher number: jobs as they are now, and tombstones of those that are
gone. A job that was made anew has no tombstone any more. Tombstones are pruned after a bound; a cursor from
before that, or from another file, is answered by everything there is (`Changes.whole`).
"""

from __future__ import annotations

import sqlite3
import time
from functools import lru_cache

from attrs import evolve

from adapters.sqlite.database import Database
from adapters.sqlite.pages import Query, query
from adapters.sqlite.watch import Watch
from ports import wire
from ports.errors import AlreadyExists, Conflict, Invalid, Unavailable
from ports.units import Span
from ports.workloads import SCHEMA, Changes, Job, JobFilter, Page, check_transition, checked_id

TOMBSTONES = 100_000  # kept; a reader that is further behind gets everything
AT_ONCE = 1_000  # jobs in one answer of `changes`
_PRUNE_EVERY = 512  # writes
_SMALL = 8 * 1024  # bytes of a stored form that is worth keeping as a value


class SqliteWorkloads:
    """`ports.workloads.Workloads`. The database is the caller's to close, after this."""

    def __init__(self, database: Database, tombstones: int = TOMBSTONES, at_once: int = AT_ONCE) -> None:
        self._database = database
        self._watch = Watch(database)
        self._tombstones = tombstones
        self._at_once = at_once
        self._pruned_at = 0

    def close(self) -> None:
        self._watch.close()

    def create(self, job: Job) -> Job:
        checked_id(job.id)
        body = _body(job)
        with self._database.write() as db:
            seq = _next(db)
            made = db.execute(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (job.id, seq, job.created_at.ms, job.spec.user, job.status.phase.value, job.spec.name, job.schema, body),
            )
            if made.rowcount != 1:
                raise AlreadyExists(job.id)
            if job.spec.labels:
                db.executemany("INSERT INTO labels VALUES (?, ?, ?)", ((job.id, *label) for label in job.spec.labels.items()))
            db.execute("DELETE FROM tombstones WHERE id = ?", (job.id,))
        self._watch.committed()
        return evolve(job, version=str(seq))

    def get(self, job_id: str) -> Job | None:
        with self._database.read() as db:
            row = db.execute("SELECT seq, schema, body FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return None if row is None else _job(*row)

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        wanted: Query = query(which, cursor, limit, newest_first)
        with self._database.read() as db:
            rows = db.execute(wanted.sql, wanted.values).fetchall()
        jobs = tuple(_job(*row) for row in rows[:limit])
        return Page(jobs, wanted.cursor_after(jobs[-1]) if len(rows) > limit else "")

    def replace(self, job: Job) -> Job:
        body = _body(job)
        with self._database.write() as db:
            row = db.execute("SELECT seq, schema, body FROM jobs WHERE id = ?", (job.id,)).fetchone()
            if row is None or str(row[0]) != job.version:
                raise Conflict(job.id)
            check_transition(_job(*row), job)
            seq = _next(db)
            db.execute(
                "UPDATE jobs SET seq = ?, phase = ?, schema = ?, body = ? WHERE id = ?",
                (seq, job.status.phase.value, job.schema, body, job.id),
            )
        self._watch.committed()
        return evolve(job, version=str(seq))

    def delete(self, job: Job) -> None:
        with self._database.write() as db:
            row = db.execute("SELECT seq FROM jobs WHERE id = ?", (job.id,)).fetchone()
            if row is None or str(row[0]) != job.version:
                raise Conflict(job.id)
            db.execute("DELETE FROM jobs WHERE id = ?", (job.id,))
            db.execute("DELETE FROM labels WHERE job = ?", (job.id,))
            seq = _next(db)
            db.execute("INSERT INTO tombstones VALUES (?, ?)", (seq, job.id))
            self._prune(db, seq)
        self._watch.committed()

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        deadline = time.monotonic() + wait.seconds
        while True:
            stamp = self._watch.stamp()
            with self._database.snapshot() as db:
                found = self._changes(db, cursor)
            if found.jobs or found.deleted or found.whole or not cursor or time.monotonic() >= deadline:
                return found
            self._watch.wait(stamp, deadline)

    # ------------------------------------------------------------ inside a transaction

    def _changes(self, db: sqlite3.Connection, cursor: str) -> Changes:
        newest, horizon, store = db.execute("SELECT jobs, horizon, store FROM sequence").fetchone()
        if not cursor:
            return Changes((), (), f"{store}:{newest}")
        of, after = _parse(cursor)
        if of != store or not horizon <= after <= newest:
            everything = db.execute("SELECT seq, schema, body FROM jobs ORDER BY seq")
            return Changes(tuple(_job(*row) for row in everything), (), f"{store}:{newest}", whole=True)
        rows = db.execute("SELECT seq, schema, body FROM jobs WHERE seq > ? ORDER BY seq LIMIT ?", (after, self._at_once)).fetchall()
        upto = rows[-1][0] if len(rows) == self._at_once else newest
        gone = db.execute("SELECT id FROM tombstones WHERE seq > ? AND seq <= ? ORDER BY seq", (after, upto))
        return Changes(tuple(_job(*row) for row in rows), tuple(row[0] for row in gone), f"{store}:{upto}")

    def _prune(self, db: sqlite3.Connection, seq: int) -> None:
        if seq < self._pruned_at + min(_PRUNE_EVERY, self._tombstones):
            return
        self._pruned_at = seq
        last = db.execute("SELECT seq FROM tombstones ORDER BY seq DESC LIMIT 1 OFFSET ?", (self._tombstones,)).fetchone()
        if last is not None:
            db.execute("DELETE FROM tombstones WHERE seq <= ?", last)
            db.execute("UPDATE sequence SET horizon = ?", last)


def _next(db: sqlite3.Connection) -> int:
    number: int = db.execute("UPDATE sequence SET jobs = jobs + 1 RETURNING jobs").fetchone()[0]
    return number


def _parse(cursor: str) -> tuple[str, int]:
    store, colon, number = cursor.partition(":")
    if not colon or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise Invalid("This cursor is none that a call of changes gave.", "cursor", "Ask on from the cursor of the last answer.", cursor)
    return store, int(number)


def _body(job: Job) -> bytes:
    """A body is bytes, not text: an environment's value may hold any byte, as half of a surrogate pair."""
    return wire.dump(evolve(job, version="")).encode("utf-8", "surrogatepass")


def _job(seq: int, schema: int, body: bytes) -> Job:
    """A stored form as a value. Most are read many times, by many: a form that is not large is read once."""
    return _recent(seq, schema, body) if len(body) <= _SMALL else _read(seq, schema, body)


@lru_cache(1024)
def _recent(seq: int, schema: int, body: bytes) -> Job:
    return _read(seq, schema, body)


def _read(seq: int, schema: int, body: bytes) -> Job:
    """The stored schema is a column: as a field at its default it is left out of the body."""
    if schema > SCHEMA:
        raise Unavailable("a stored job", f"a newer release wrote it (schema {schema}); this one knows up to {SCHEMA}")
    try:
        return evolve(wire.load(body, Job), version=str(seq), schema=schema)
    except Exception as error:  # whatever json and cattrs raise
        raise Unavailable("a stored job", f"write {seq} of the job store can't be read: {type(error).__name__}") from error
