"""The proof of the journal: whatever was changed behind our back, or by a bug, is found and named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.sqlite import journal
from adapters.sqlite.audit import Audit
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.database import Database
from adapters.sqlite.schema import open_credits
from ports.credits import ISSUE
from ports.units import Credits, Instant, Span
from tests.contract.samples import a_charge
from tests.memory.clock import ManualClock


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(open_credits(tmp_path)) as made:
        yield made


@pytest.fixture
def credit(database: Database) -> SqliteCredits:
    """Rows 1-2: a grant. 3-5: a charge of job-1/1. 6-8: its next tick. 9-10: another grant. One hold is open, one closed."""
    made = SqliteCredits(database, ManualClock())
    made.post("grant-1", "grant", {ISSUE: Credits(-100), "user:alice": Credits(100)})
    made.charge([a_charge(10, org=30, platform=3), a_charge(20, org=40, platform=4)])
    made.post("grant-2", "grant", {ISSUE: Credits(-7), "user:bob": Credits(7)})
    made.authorise("h1", "user:alice", Credits(20))
    made.authorise("h2", "user:bob", Credits(5))
    made.void("h2")
    return made


def tamper(database: Database, statement: str) -> None:
    with closing(sqlite3.connect(database.path)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


def test_an_honest_journal_is_proved(credit: SqliteCredits) -> None:
    """The proof runs over everything, and finds nothing."""
    assert Audit(10) == credit.verify()
    assert credit.verify().sound


def test_an_empty_journal_is_proved(database: Database) -> None:
    """The day before the first credit."""
    assert Audit(0) == SqliteCredits(database, ManualClock()).verify()


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE journal SET amount = amount - 1 WHERE seq = 4", 4),
        ("UPDATE journal SET account = 'user:bob' WHERE seq = 3", 3),
        ("UPDATE journal SET at = at + 1 WHERE seq = 7", 7),
        ("UPDATE journal SET until = 11 WHERE seq = 5", 5),
        ("UPDATE journal SET run = 'job-2/1' WHERE seq = 6", 6),
        ("UPDATE journal SET memo = 'x' WHERE seq = 10", 10),
        ("UPDATE journal SET hash = zeroblob(32) WHERE seq = 8", 8),
        ("DELETE FROM journal WHERE seq = 1", 1),
        ("DELETE FROM journal WHERE seq IN (6, 7, 8)", 6),
        ("DELETE FROM journal WHERE seq > 8", 9),
        ("DELETE FROM journal", 1),
        ("UPDATE journal_end SET seq = 12", 11),
        ("UPDATE journal_end SET hash = zeroblob(32)", 11),
    ],
)
def test_a_changed_row_is_named(credit: SqliteCredits, database: Database, statement: str, seq: int) -> None:
    """Whoever edits the file can't hide it, and the operator knows from where on to look."""
    tamper(database, statement)
    found = credit.verify()
    assert (seq, seq - 1) == (found.seq, found.rows)
    assert not found.sound


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE accounts SET balance = balance + 1 WHERE name = 'user:alice'", "balance of user:alice: 57 is kept, the rows give 56"),
        ("DELETE FROM accounts WHERE name = 'org'", "balance of org: nothing is kept, the rows give 40"),
        ("INSERT INTO accounts VALUES ('user:mallory', 5, 0, '')", "balance of user:mallory: 5 is kept, the rows give 0"),
        ("UPDATE charges SET until = 30", "charge of ('uid-1', 'job-1/1')"),
        ("DELETE FROM charges", "charge of ('uid-1', 'job-1/1')"),
        ("UPDATE totals SET total = 41 WHERE account = 'org'", "total of ('uid-1', 'job-1/1', 'org'): 41 is kept, the rows give 40"),
        ("DELETE FROM posted WHERE key = 'grant-2'", "key grant-2"),
        ("UPDATE accounts SET held = 0 WHERE name = 'user:alice'", "held of user:alice: nothing is kept, the rows give 20"),
        ("UPDATE holds SET state = 'open' WHERE key = 'h2'", "held of user:bob: nothing is kept, the rows give 5"),
        ("UPDATE holds SET amount = 1 WHERE key = 'h1'", "held of user:alice"),
        ("UPDATE holds SET state = 'ajar' WHERE key = 'h1'", "hold h1"),
    ],
)
def test_a_changed_copy_is_told(credit: SqliteCredits, database: Database, statement: str, words: str) -> None:
    """Balances, totals and holds are kept beside the rows, and must be what the rows come to."""
    tamper(database, statement)
    found = credit.verify()
    assert 0 == found.seq
    assert words in found.fault


@pytest.mark.parametrize(
    ("kind", "key", "until", "lines", "words"),
    [
        ("charge", "uid-1", 20, [("user:alice", -1), ("org", 1)], "the charge of job-1/1 to 20 ms follows one to 20 ms"),
        ("charge", "uid-1", 30, [("user:bob", -1), ("org", 1)], "the charge of job-1/1 to 30 ms follows one to 20 ms by user:alice"),
        ("charge", "uid-1", 30, [("user:alice", 1), ("org", -1)], "a charge pays its payer"),
        ("charge", "uid-1", 30, [("user:alice", -1), ("org", 2), ("platform", -1)], "a total of job-1/1 falls"),
        ("grant", "grant-1", 0, [("issue", -1), ("user:bob", 1)], "key grant-1 is posted twice"),
    ],
)
def test_a_well_hashed_mistake_is_named(
    credit: SqliteCredits, database: Database, kind: str, key: str, until: int, lines: list[tuple[str, int]], words: str
) -> None:
    """The hash says that a row is as it was written; the rules say whether it should have been written."""
    with database.write() as db:
        posted = [(name, Credits(amount)) for name, amount in lines]
        journal.append(db, Instant(1), kind, key, posted, run="job-1/1" if kind == "charge" else "", until=Span(until))
    found = credit.verify()
    assert words in found.fault
    assert found.seq in (11, 13)


def test_a_posting_that_does_not_sum_to_zero_is_named(credit: SqliteCredits, database: Database) -> None:
    """Also one whose rows are all hashed, so that it could only come from a bug of ours."""
    with database.write() as db:
        seq, posting, hashed = db.execute("SELECT seq, posting, hash FROM journal_end").fetchone()
        row: journal.Row = (seq + 1, 1, posting + 1, "user:bob", 5, "grant", "grant-3", "", 0, "")
        hashed = journal.chained(hashed, row)
        db.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, hashed))
        db.execute("UPDATE journal_end SET seq = ?, posting = ?, hash = ?", (seq + 1, posting + 1, hashed))
    found = credit.verify()
    assert ("posting 5 sums to 5 micro-credits, not 0", 11) == (found.fault, found.seq)
