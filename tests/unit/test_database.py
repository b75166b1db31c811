"""One SQLite file among threads and processes: whole after every crash, and its faults told in our words."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from adapters.sqlite.database import Database, Schema
from ports.errors import Invalid, Refused, Unavailable
from ports.units import Span
from tests.contract.races import ROOT, in_threads

ONE = Schema("numbers", (("CREATE TABLE numbers (n INTEGER NOT NULL) STRICT",),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "numbers.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with closing(Database(path, ONE, patience=Span(200))) as made:
        yield made


def add(database: Database, n: int) -> None:
    with database.write() as db:
        db.execute("INSERT INTO numbers VALUES (?)", (n,))


def numbers(database: Database) -> list[int]:
    with database.read() as db:
        return [row[0] for row in db.execute("SELECT n FROM numbers ORDER BY n")]


@contextmanager
def program(text: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process with `database` open; killed at the end."""
    head = (
        "import sys; from pathlib import Path; from adapters.sqlite.database import Database\n"
        "from tests.unit.test_database import ONE, add\n"
        "database = Database(Path(sys.argv[1]), ONE)\n"
    )
    command = [sys.executable, "-c", head + text, str(path)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# ---------------------------------------------------------------- transactions


def test_an_exception_undoes_the_transaction(database: Database) -> None:
    """A conflict that is found in the middle must leave nothing written."""

    def write() -> None:
        with database.write() as db:
            db.execute("INSERT INTO numbers VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert [] == numbers(database)
    add(database, 2)
    assert [2] == numbers(database)


def test_a_snapshot_does_not_move(database: Database) -> None:
    """A proof over many rows must not see half of a later posting."""
    with database.snapshot() as db:
        before = db.execute("SELECT count(*) FROM numbers").fetchone()
        add(database, 1)
        assert before == db.execute("SELECT count(*) FROM numbers").fetchone()
    assert [1] == numbers(database)


def test_writers_in_threads_wait_for_one_another(path: Path) -> None:
    """A read that leads to a write is never undone by "database is locked"."""
    with closing(Database(path, ONE)) as database:

        def raise_by_one(_: int) -> None:
            for _ in range(20):
                with database.write() as db:
                    highest = db.execute("SELECT coalesce(max(n), 0) FROM numbers").fetchone()[0]
                    db.execute("INSERT INTO numbers VALUES (?)", (highest + 1,))

        in_threads(raise_by_one, 8)
        assert list(range(1, 161)) == numbers(database)


def test_a_writer_killed_in_the_middle_leaves_the_file_whole(database: Database, path: Path) -> None:
    """Every process of ours may be killed at any moment: what was answered stays, what was not is not there."""
    text = (
        "add(database, 1)\nwith database.write() as db:\n"
        "    db.executemany('INSERT INTO numbers VALUES (?)', ((n,) for n in range(100, 50_000)))\n"
        "    print('in', flush=True); sys.stdin.read()\n"
    )
    with program(text, path) as process:
        assert "in" == line(process)
        process.kill()
        process.wait()
    assert [1] == numbers(database)
    add(database, 2)
    with database.read() as db:
        assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()


def test_a_writer_killed_between_its_writes_leaves_a_beginning(database: Database, path: Path) -> None:
    """Wherever the kill falls, the writes that are there are the first ones, without a gap."""
    with program("n = 0\nwhile True:\n    n += 1\n    add(database, n)\n    print(n, flush=True)\n", path) as process:
        while int(line(process)) < 50:
            pass
        process.kill()
        process.wait()
    found = numbers(database)
    assert list(range(1, len(found) + 1)) == found
    assert len(found) >= 50


# ---------------------------------------------------------------- what the world does to us


def test_a_lock_that_another_process_keeps_is_unavailable(database: Database, path: Path) -> None:
    """A request ends with a 503 instead of hanging; a moment later it works."""
    with program("with database.write():\n    print('in', flush=True); sys.stdin.readline()\nprint('out', flush=True)\n", path) as process:
        assert "in" == line(process)
        with pytest.raises(Unavailable, match="locked"):
            add(database, 1)
        assert [] == numbers(database)  # readers don't wait for writers
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert "out" == line(process)
    add(database, 1)
    assert [1] == numbers(database)


def test_a_lock_that_another_thread_keeps_is_unavailable(database: Database) -> None:
    """The same within one process."""
    with database.write(), ThreadPoolExecutor(1) as pool, pytest.raises(Unavailable, match="writers"):
        pool.submit(add, database, 1).result()


def test_connections_are_bounded(path: Path) -> None:
    """A storm of requests must not open a storm of files."""
    with closing(Database(path, ONE, patience=Span(50), connections=2)) as database:
        with database.read(), database.read(), pytest.raises(Unavailable, match="connections"):
            numbers(database)
        assert [] == numbers(database)


def test_a_full_disk_is_unavailable_and_undone(database: Database) -> None:
    """Nothing is half written, and smaller writes go on."""
    with database.read() as db:  # the pool gives this connection again: nothing else is in use
        db.execute("PRAGMA max_page_count=20")

    def fill() -> None:
        with database.write() as db:
            db.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(1_000_000)))

    with pytest.raises(Unavailable, match="full"):
        fill()
    assert [] == numbers(database)
    add(database, 1)


def test_a_file_that_is_no_database_is_unavailable(path: Path) -> None:
    """The message names the file, and what is wrong with it, but not where it lies."""
    path.parent.mkdir()
    path.write_bytes(b"this is a letter to my aunt" * 100)
    with pytest.raises(Unavailable, match=r"numbers\.db.*not a database") as caught:
        Database(path, ONE)
    assert str(path.parent) not in str(caught.value)


def test_a_damaged_file_is_unavailable(database: Database, path: Path) -> None:
    """A broken disk must not look like an empty store."""
    with database.write() as db:
        db.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(5000)))
    database.close()
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = os.urandom(len(data) - 4096 * 2)
    path.write_bytes(data)
    with closing(Database(path, ONE)) as damaged, pytest.raises(Unavailable, match="malformed"):
        numbers(damaged)


def test_our_own_mistakes_are_not_the_world_s(database: Database) -> None:
    """Bad SQL and broken constraints are bugs: a retry would hide them."""
    for statement, error in (
        ("SELECT nothing FROM numbers", sqlite3.OperationalError),
        ("INSERT INTO numbers VALUES (NULL)", sqlite3.IntegrityError),
    ):
        with pytest.raises(error), database.write() as db:
            db.execute(statement)
    assert [] == numbers(database)


@pytest.mark.parametrize("value", [2**63, "\ud800"])
def test_what_can_not_be_stored_is_invalid(database: Database, value: object) -> None:
    """It came from outside: it must be the caller's error."""
    with pytest.raises(Invalid), database.write() as db:
        db.execute("SELECT ?", (value,))


def test_a_closed_database_says_so(database: Database) -> None:
    """Late threads of a server that ends get an answer, and the files are let go."""
    add(database, 1)
    database.close()
    for use in (lambda: numbers(database), lambda: add(database, 2), database.connect):
        with pytest.raises(Unavailable, match="closed"):
            use()


def test_closing_lets_a_transaction_end(database: Database) -> None:
    """An answer that was about to be given is given."""
    entered, closed = threading.Event(), threading.Event()

    def slow() -> list[int]:
        with database.write() as db:
            db.execute("INSERT INTO numbers VALUES (1)")
            entered.set()
            assert closed.wait(60)
        return [1]

    with ThreadPoolExecutor(1) as pool:
        slowly = pool.submit(slow)
        assert entered.wait(60)
        database.close()
        closed.set()
        assert [1] == slowly.result()
    with closing(Database(database.path, ONE)) as again:
        assert [1] == numbers(again)


def test_a_forked_child_may_not_use_its_parent_s_connections(database: Database) -> None:
    """SQLite's locks don't survive a fork: two processes on one connection would corrupt the file."""
    add(database, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            numbers(database)
        except Unavailable:
            code = 7
        finally:
            os._exit(code)
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert [1] == numbers(database)


# ---------------------------------------------------------------- the file and its schema


def test_the_file_is_its_owner_s_alone(database: Database, path: Path) -> None:
    """It holds environments, and so secrets, of users."""
    add(database, 1)
    assert {0o600} == {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}


def test_a_new_file_may_be_opened_by_many_at_once(path: Path) -> None:
    """Gateway processes start together, and the first of them makes the file."""
    with program("print(1, flush=True)\n", path) as one, program("print(2, flush=True)\n", path) as two:
        opened = in_threads(lambda _: Database(path, ONE), 4)
        assert ["1", "2"] == [line(one), line(two)]
    for each in opened:
        assert isinstance(each, Database)
        each.close()


def test_a_newer_release_migrates_an_older_file(database: Database, path: Path) -> None:
    """An upgrade keeps every row, and is made once."""
    add(database, 1)
    newer = Schema(
        "numbers", (*ONE.steps, ("ALTER TABLE numbers ADD COLUMN name TEXT NOT NULL DEFAULT ''", "UPDATE numbers SET name = 'one'"))
    )
    for _ in range(2):
        with closing(Database(path, newer)) as migrated, migrated.read() as db:
            assert [(1, "one")] == db.execute("SELECT * FROM numbers").fetchall()


def test_a_migration_that_fails_leaves_the_older_file(database: Database, path: Path) -> None:
    """The older release still runs after an upgrade that went wrong."""
    add(database, 1)
    with pytest.raises(sqlite3.OperationalError):
        Database(path, Schema("numbers", (*ONE.steps, ("DELETE FROM numbers", "ALTER TABLE nothing ADD COLUMN x"))))
    with closing(Database(path, ONE)) as again:
        assert [1] == numbers(again)


def test_an_older_release_refuses_a_newer_file(path: Path) -> None:
    """It would read it wrongly, and write what the newer one can't read."""
    Database(path, Schema("numbers", (*ONE.steps, ("CREATE TABLE more (n INTEGER) STRICT",)))).close()
    with pytest.raises(Refused, match=r"numbers\.db was written by a newer release: its schema is 2, this release knows up to 1"):
        Database(path, ONE)


def test_another_file_is_refused(database: Database, path: Path) -> None:
    """Two settings that name one file must not mix workloads and money."""
    with pytest.raises(Refused, match=r"numbers\.db holds numbers, not letters"):
        Database(path, Schema("letters", (("CREATE TABLE letters (c TEXT) STRICT",),)))
