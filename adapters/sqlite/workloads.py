"""Workloads in SQLite.

Each write takes the next number of one growing sequence, and that number is the job's version. What changed
after a cursor is therefore what has a higher number: jobs as they are now, and tombstones of those that are
gone. The newest write is always one of the two, so the sequence needs no place of its own. A tombstone of a job
that was made anew says nothing. Tombstones are pruned after a bound; a cursor from before that, or from another
file, is answered by everything there is (`Changes.whole`).
"""

from __future__ import annotations

import sqlite3
import threading
import time

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
_KEPT = 2_048  # such values
_NEWEST = "max(coalesce((SELECT max(seq) FROM jobs), 0), coalesce((SELECT max(seq) FROM tombstones), 0))"  # number of a write
_NEXT = f"SELECT {_NEWEST} + 1"
_STATE = f"SELECT {_NEWEST}, horizon, store FROM sequence"  # noqa: S608 - made of constants
_GONE = (
    "SELECT id FROM tombstones WHERE seq > ? AND seq <= ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = tombstones.id) ORDER BY seq"
)
_CREATE = f"INSERT INTO jobs SELECT ?, {_NEWEST} + 1, ?, ?, ?, ?, ?, ? WHERE true ON CONFLICT (id) DO NOTHING RETURNING seq"
_REPLACE = f"UPDATE jobs SET seq = {_NEWEST} + 1, phase = ?, schema = ?, body = ? WHERE id = ? AND seq = ? RETURNING seq"  # noqa: S608 - made of constants


class SqliteWorkloads:
    """`ports.workloads.Workloads`. The database is the caller's to close, after this."""

    draws_uids = False

    def __init__(self, database: Database, tombstones: int = TOMBSTONES, at_once: int = AT_ONCE) -> None:
        self._database = database
        self._watch = Watch(database)
        self._tombstones = tombstones
        self._at_once = at_once
        self._pruned_at = 0
        self._known: dict[int, tuple[bytes, Job]] = {}  # by number of write: what was lately written or read
        self._knowing = threading.Lock()
        self._peeked: sqlite3.Connection | None = None
        self._peeking = threading.Lock()
        self._closed = False

    def close(self) -> None:
        self._watch.close()
        with self._peeking:
            self._closed = True
            if self._peeked is not None:
                self._peeked.close()

    def create(self, job: Job) -> Job:
        checked_id(job.id)
        body, labels = _body(job), [(job.id, *label) for label in job.spec.labels.items()]
        with self._database.write() if labels else self._database.statement() as db:
            made = (job.id, job.created_at.ms, job.spec.user, job.status.phase.value, job.spec.name, job.schema, body)
            inserted = db.execute(_CREATE, made).fetchall()
            if not inserted:
                raise AlreadyExists(job.id)
            if labels:
                db.executemany("INSERT INTO labels VALUES (?, ?, ?)", labels)
        stored = self._note(inserted[0][0], body, evolve(job, version=str(inserted[0][0])))
        self._watch.committed()
        return stored

    def get(self, job_id: str) -> Job | None:
        with self._database.read() as db:
            row = db.execute("SELECT seq, schema, body FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return None if row is None else self._job(*row)

    def peek(self, job_id: str) -> Job | None:
        """By the number of its newest write, if that write is one of those that are kept as values."""
        if not self._peeking.acquire(blocking=False):
            return None
        try:
            if self._closed:
                return None
            if self._peeked is None:
                self._peeked = self._database.connect(patient=False)
            row = self._peeked.execute("SELECT seq, schema FROM jobs WHERE id = ?", (job_id,)).fetchone()
        except (sqlite3.Error, UnicodeEncodeError, Unavailable):  # `get` will say it
            return None
        finally:
            self._peeking.release()
        known = None if row is None else self._known.get(row[0])
        return None if known is None or (known[1].id, known[1].schema) != (job_id, row[1]) else known[1]

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        wanted: Query = query(which, cursor, limit, newest_first)
        with self._database.read() as db:
            rows = db.execute(wanted.sql, wanted.values).fetchall()
        jobs = tuple(self._job(*row) for row in rows[:limit])
        return Page(jobs, wanted.cursor_after(jobs[-1]) if len(rows) > limit else "")

    def replace(self, job: Job) -> Job:
        body = _body(job)
        with self._database.write() as db:
            stored = self._stored(db, job)
            updated = db.execute(_REPLACE, (job.status.phase.value, job.schema, body, job.id, int(job.version))).fetchall()
            if not updated:
                raise Conflict(job.id)
            check_transition(stored, job)
        written = self._note(updated[0][0], body, evolve(job, version=str(updated[0][0])))
        self._watch.committed()
        return written

    def delete(self, job: Job) -> None:
        with self._database.write() as db:
            row = db.execute("SELECT seq FROM jobs WHERE id = ?", (job.id,)).fetchone()
            if row is None or str(row[0]) != job.version:
                raise Conflict(job.id)
            seq = db.execute(_NEXT).fetchone()[0]
            db.execute("DELETE FROM jobs WHERE id = ?", (job.id,))
            db.execute("DELETE FROM labels WHERE job = ?", (job.id,))
            db.execute("INSERT OR REPLACE INTO tombstones VALUES (?, ?)", (seq, job.id))
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
        newest, horizon, store = db.execute(_STATE).fetchone()
        if not cursor:
            return Changes((), (), f"{store}:{newest}")
        of, after = _parse(cursor)
        if of != store or not horizon <= after <= newest:
            everything = db.execute("SELECT seq, schema, body FROM jobs ORDER BY seq")
            return Changes(tuple(self._job(*row) for row in everything), (), f"{store}:{newest}", whole=True)
        rows = db.execute("SELECT seq, schema, body FROM jobs WHERE seq > ? ORDER BY seq LIMIT ?", (after, self._at_once)).fetchall()
        upto = rows[-1][0] if len(rows) == self._at_once else newest
        gone = db.execute(_GONE, (after, upto))
        return Changes(tuple(self._job(*row) for row in rows), tuple(row[0] for row in gone), f"{store}:{upto}")

    def _stored(self, db: sqlite3.Connection, job: Job) -> Job:
        """What `job` was made from: the write of that number, whether or not it is still the newest. Raises Conflict if it is not known."""
        known = self._known.get(int(job.version)) if job.version.isdecimal() else None
        if known is not None and known[1].id == job.id:
            return known[1]
        row = db.execute("SELECT seq, schema, body FROM jobs WHERE id = ?", (job.id,)).fetchone()
        if row is None or str(row[0]) != job.version:
            raise Conflict(job.id)
        return self._job(*row)

    def _job(self, seq: int, schema: int, body: bytes) -> Job:
        """A stored form as a value. Most are read many times, by many, and by whoever wrote them."""
        known = self._known.get(seq)
        if known is not None and known[0] == body and known[1].schema == schema:
            return known[1]
        return self._note(seq, body, _read(seq, schema, body))

    def _note(self, seq: int, body: bytes, job: Job) -> Job:
        """Keep it, unless it is large; the oldest goes when there are too many."""
        if len(body) <= _SMALL:
            with self._knowing:
                self._known[seq] = (body, job)
                if len(self._known) > _KEPT:
                    del self._known[next(iter(self._known))]
        return job

    def _prune(self, db: sqlite3.Connection, seq: int) -> None:
        if seq < self._pruned_at + min(_PRUNE_EVERY, self._tombstones):
            return
        self._pruned_at = seq
        last = db.execute("SELECT seq FROM tombstones ORDER BY seq DESC LIMIT 1 OFFSET ?", (self._tombstones,)).fetchone()
        if last is not None:
            db.execute("DELETE FROM tombstones WHERE seq <= ?", last)
            db.execute("UPDATE sequence SET horizon = ?", last)


def _parse(cursor: str) -> tuple[str, int]:
    store, colon, number = cursor.partition(":")
    if not colon or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise Invalid("This cursor is none that a call of changes gave.", "cursor", "Ask on from the cursor of the last answer.", cursor)
    return store, int(number)


def _body(job: Job) -> bytes:
    """A body is bytes, not text: an environment's value may hold any byte, as half of a surrogate pair."""
    return wire.dump(evolve(job, version="") if job.version else job).encode("utf-8", "surrogatepass")


def _read(seq: int, schema: int, body: bytes) -> Job:
    """The stored schema is a column: as a field at its default it is left out of the body."""
    if schema > SCHEMA:
        raise Unavailable("a stored job", f"a newer release wrote it (schema {schema}); this one knows up to {SCHEMA}")
    try:
        return evolve(wire.load(body, Job), version=str(seq), schema=schema)
    except Exception as error:  # whatever json and cattrs raise
        raise Unavailable("a stored job", f"write {seq} of the job store can't be read: {type(error).__name__}") from error
