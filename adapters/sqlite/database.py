"""One SQLite file, and the connections to it.

Every write is one `BEGIN IMMEDIATE` transaction, or one statement: a deferred one that reads and then writes fails at once when
another process wrote in between. Writers of this process queue on a lock (SQLite would make them sleep and
poll); writers of other processes wait for `patience`. A connection is lent for one transaction at a time, so
threads never share one and their number is bounded. What SQLite can't do becomes `Unavailable`; a mistake of
ours (bad SQL, a broken constraint) stays the error that it is.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

from attrs import frozen

from ports.errors import GridweaveError, Invalid, Refused, Unavailable
from ports.units import Span

CHECKPOINT = 8192  # pages of the log before they are carried over: with 1000, every fiftieth submit waits for the disk

# The world's faults by primary result code; any other code is a fault of the caller.
_WORLD = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)


@frozen
class Schema:
    """What a file holds. purpose: in words, kept in the file. steps: statements that lead from version n to n + 1."""

    purpose: str
    steps: Sequence[Sequence[str]]


def version_of(path: Path) -> int:
    """Of the schema that the file has; 0 if there is none. Raises Unavailable if it can't be read."""
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
            found = reader.execute("SELECT version FROM schema_version").fetchone()
    except sqlite3.Error as error:
        raise Unavailable(path.name, f"{error} ({getattr(error, 'sqlite_errorname', '')})") from error
    return 0 if found is None else int(found[0])


class Database:
    """Opened by any number of processes at once. Raises Unavailable, or Refused for a file that is not ours to read."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        patience: Span = Span(10_000),
        connections: int = 16,
    ) -> None:
        """synchronous: NORMAL survives a killed process, FULL also a power cut. patience: for locks and connections."""
        self.path = path
        self._schema = schema
        self._synchronous = synchronous
        self._patience = patience.seconds
        self._room = threading.BoundedSemaphore(connections)
        self._idle: list[sqlite3.Connection] = []
        self._writing = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        with self.answering():
            _claim(path)
            self._bring_up_to_date()

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """One transaction that holds the file's write lock from its first moment; an exception undoes it."""
        return _Turn(self, "BEGIN IMMEDIATE", alone=True)

    def statement(self) -> AbstractContextManager[sqlite3.Connection]:
        """For one statement that writes: it is a transaction of its own, done when all its rows are fetched."""
        return _Turn(self, "", alone=True)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Each statement sees the newest commit."""
        return _Turn(self, "", alone=False)

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """All statements see the same commit."""
        return _Turn(self, "BEGIN", alone=False)

    def connect(self, patient: bool = True) -> sqlite3.Connection:
        """A connection beside the bounded ones, for one long-lived reader, who closes it. patient: it waits for locks."""
        if self._closed:
            raise Unavailable(self.path.name, "it was closed")
        with self.answering():
            made = self._connect()
            if not patient:
                made.execute("PRAGMA busy_timeout=0")
            return made

    def close(self) -> None:
        """Later calls raise Unavailable; a transaction under way ends as it would have."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # ------------------------------------------------------------ connections and locks

    def _queue_up(self) -> None:
        """Until no other thread writes."""
        if not self._writing.acquire(timeout=self._patience):
            raise Unavailable(self.path.name, "other writers held it for too long")

    def _borrow(self) -> sqlite3.Connection:
        if self._closed:
            raise Unavailable(self.path.name, "it was closed")
        if self._process != os.getpid():
            raise Unavailable(self.path.name, "it was opened before a fork, and must be opened anew in the child")
        if not self._room.acquire(timeout=self._patience):
            raise Unavailable(self.path.name, "all connections are in use")
        try:
            return self._take()
        except BaseException:
            self._room.release()
            raise

    def _give_back(self, connection: sqlite3.Connection, failed: bool) -> None:
        """failed: it may be what is broken; the next one starts afresh."""
        if failed:
            connection.close()
        else:
            self._idle.append(connection)
        self._room.release()
        if self._closed:
            self._close_idle()

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, timeout=self._patience, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            made.execute(f"PRAGMA synchronous={self._synchronous}")
            made.execute("PRAGMA temp_store=MEMORY")
            made.execute("PRAGMA cache_size=-16000")
            made.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
            made.execute(f"PRAGMA journal_size_limit={64 * 1024 * 1024}")
        except BaseException:
            made.close()
            raise
        return made

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Within it, what SQLite can't do becomes Unavailable."""
        try:
            yield
        except Exception as error:
            said = self._said(error)
            if said is None:
                raise
            raise said from error

    def _said(self, error: BaseException) -> GridweaveError | None:
        """A fault of the world or of what was given, in our words; None: it is what it is."""
        if isinstance(error, sqlite3.Error):
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _WORLD:
                return None
            return Unavailable(self.path.name, f"{error} ({error.sqlite_errorname})")
        if isinstance(error, OSError):
            return Unavailable(self.path.name, error.strerror or "")
        if isinstance(error, UnicodeEncodeError):
            return Invalid("A text holds half of a surrogate pair, which can't be stored.", value=ascii(error.object))
        if isinstance(error, OverflowError):
            return Invalid("A number is too large to be stored.")
        return None

    # ------------------------------------------------------------ the schema

    def _bring_up_to_date(self) -> None:
        with self.read() as connection:
            self._use_wal(connection)
        with self.write() as connection:
            self._migrate(connection)

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """SQLite does not wait for the lock of this switch when two processes make it at once: we do."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                break
        if mode != "wal":
            raise Refused(f"{self.path.name} can't be shared on this file system.", remedy="Keep the state folder on a local disk.")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        purpose, steps = self._schema.purpose, self._schema.steps
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (purpose TEXT NOT NULL, version INTEGER NOT NULL) STRICT")
        found = connection.execute("SELECT purpose, version FROM schema_version").fetchone()
        if found is None:
            connection.execute("INSERT INTO schema_version VALUES (?, 0)", (purpose,))
            found = (purpose, 0)
        if found[0] != purpose:
            raise Refused(f"{self.path.name} holds {found[0]}, not {purpose}.", remedy="Name another state folder or file.")
        if found[1] > len(steps):
            raise Refused(
                f"{self.path.name} was written by a newer release: its schema is {found[1]}, this release knows up to {len(steps)}.",
                remedy="Run the newer release, or restore a backup made by this one.",
            )
        for step in steps[found[1] :]:
            for statement in step:
                connection.execute(statement)
        if found[1] < len(steps):
            connection.execute("UPDATE schema_version SET version = ?", (len(steps),))


class _Turn:
    """A connection, lent for one transaction, which is kept or undone at its end.

    In one piece, since every request goes through several: nested generators would cost as much as the statements.
    """

    __slots__ = ("_alone", "_base", "_begin", "_connection")

    def __init__(self, base: Database, begin: str, alone: bool) -> None:
        """begin: the statement, "" for none. alone: one thread of this process at a time."""
        self._base, self._begin, self._alone = base, begin, alone

    def __enter__(self) -> sqlite3.Connection:
        try:
            if self._alone:
                self._base._queue_up()
            try:
                self._connection = self._base._borrow()
                self._start()
            except BaseException:
                if self._alone:
                    self._base._writing.release()
                raise
        except Exception as error:
            said = self._base._said(error)
            if said is None:
                raise
            raise said from error
        return self._connection

    def _start(self) -> None:
        if self._begin:
            try:
                self._connection.execute(self._begin)
            except BaseException as error:
                self._base._give_back(self._connection, isinstance(error, sqlite3.Error))
                raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        failed = error
        try:
            self._end(error)
        except BaseException as ending:
            failed = ending
            said = self._base._said(ending)
            if said is None:
                raise
            raise said from ending
        finally:
            self._base._give_back(self._connection, isinstance(failed, sqlite3.Error))
            if self._alone:
                self._base._writing.release()
        said = None if error is None else self._base._said(error)
        if said is not None:
            raise said from error

    def _end(self, error: BaseException | None) -> None:
        """Commit, or undo (SQLite may have undone it by itself, after a full disk for one)."""
        if not self._begin:
            return
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _claim(path: Path) -> None:
    """Make the file, readable by us alone: it holds environments, and so secrets, of users.

    It is made under another name and linked: to close a file that is open elsewhere in this process would drop
    the locks that SQLite holds on it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    os.close(handle)
    try:
        os.link(made, path)
    except FileExistsError:
        pass  # another process was faster
    finally:
        os.unlink(made)
