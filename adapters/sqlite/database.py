"""One SQLite file, and the connections to it.

Every write is one `BEGIN IMMEDIATE` transaction: a deferred one that reads and then writes fails at once when
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
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from attrs import frozen

from ports.errors import Invalid, Refused, Unavailable
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

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the file's write lock from its first moment; an exception undoes it."""
        with self.answering(), self._alone(), self._lent() as connection:
            connection.execute("BEGIN IMMEDIATE")
            with _ended(connection):
                yield connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Each statement sees the newest commit."""
        with self.answering(), self._lent() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """All statements see the same commit."""
        with self.answering(), self._lent() as connection:
            connection.execute("BEGIN")
            with _ended(connection):
                yield connection

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

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._writing.acquire(timeout=self._patience):
            raise Unavailable(self.path.name, "other writers held it for too long")
        try:
            yield
        finally:
            self._writing.release()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        if self._closed:
            raise Unavailable(self.path.name, "it was closed")
        if self._process != os.getpid():
            raise Unavailable(self.path.name, "it was opened before a fork, and must be opened anew in the child")
        if not self._room.acquire(timeout=self._patience):
            raise Unavailable(self.path.name, "all connections are in use")
        connection = None
        try:
            connection = self._take()
            yield connection
        except sqlite3.Error:
            if connection is not None:  # it may be what is broken: the next one starts afresh
                connection.close()
                connection = None
            raise
        finally:
            if connection is not None:
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
        except UnicodeEncodeError as error:
            raise Invalid("A text holds half of a surrogate pair, which can't be stored.", value=ascii(error.object)) from error
        except OverflowError as error:
            raise Invalid("A number is too large to be stored.") from error
        except OSError as error:
            raise Unavailable(self.path.name, error.strerror or "") from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _WORLD:
                raise
            raise Unavailable(self.path.name, f"{error} ({error.sqlite_errorname})") from error

    # ------------------------------------------------------------ the schema

    def _bring_up_to_date(self) -> None:
        with self._lent() as connection:
            self._use_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            with _ended(connection):
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


@contextmanager
def _ended(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit, or undo after an exception (SQLite may have undone it by itself, after a full disk for one)."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


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
