"""The double-entry journal of money: rows that are only ever added, each hashed together with the one before.

A posting is a few rows whose amounts sum to zero. The balance of an account is kept beside the journal and
changed in the same transaction; `adapters.sqlite.audit` proves that the two agree.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _text
from typing import Any

from adapters.sqlite import caps
from ports.credits import SPENDING, Entry, user_account
from ports.errors import Invalid
from ports.months import Month
from ports.units import Credits, Instant, Span

CHARGE = "charge"  # the kind of a charge's posting; its key is the workload's uid, its first line is the payer's
USERS = user_account("")
LARGEST = 2**53  # micro-credits in one line: no sum of a thousand of them leaves 64 bits
_ACCOUNT = re.compile(r"[a-z]{1,40}(:[^\x00-\x20\x7f\ud800-\udfff]{1,400})?")

Row = tuple[int, int, int, str, int, str, str, str, int, str]  # as journal's columns, without hash
COLUMNS = "seq, at, posting, account, amount, kind, key, run, until, memo"


def is_account(name: str) -> bool:
    """A word, and maybe a colon and an id."""
    return _ACCOUNT.fullmatch(name) is not None


def check_balanced(amounts: Iterable[Credits]) -> None:
    """Raises Invalid if there are no lines or they don't sum to zero."""
    each = [amount.micro for amount in amounts]
    if not each or sum(each) != 0:
        raise Invalid("A posting has lines, and they sum to zero.", "lines", "Whatever goes into one account comes out of another.")


@lru_cache(64)
def _month(ms: int) -> str:
    return str(Month.of(Instant(ms)))


class Pen:
    """Adds postings within one transaction: the journal's end is read once, and rows and balances are written by `flush`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._seq, self._posting, self._hash = db.execute("SELECT seq, posting, hash FROM journal_end").fetchone()
        self._rows: list[tuple[object, ...]] = []
        self.moved: dict[str, int] = {}  # of each account so far, in micro-credits
        self.spent: dict[str, dict[str, int]] = {}  # by month and account

    def append(
        self,
        at: Instant,
        kind: str,
        key: str,
        lines: Sequence[tuple[str, int]],
        *,
        run: str = "",
        until: Span = Span(0),
        memo: str = "",
    ) -> None:
        """One posting, of lines that sum to zero, in micro-credits."""
        self._posting += 1
        spends = kind in SPENDING
        for account, micro in lines:
            self._seq += 1
            row: Row = (self._seq, at.ms, self._posting, account, micro, kind, key, run, until.ms, memo)
            self._hash = chained(self._hash, row)
            self._rows.append((*row, self._hash))
            self.moved[account] = self.moved.get(account, 0) + micro
            if spends and micro < 0 and account.startswith(USERS):
                spent = self.spent.setdefault(_month(at.ms), {})
                spent[account] = spent.get(account, 0) - micro

    def flush(self) -> None:
        """Once."""
        self._db.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._rows)
        self._db.executemany(
            "INSERT INTO accounts VALUES (?, ?, 0, '') ON CONFLICT (name) DO UPDATE SET balance = balance + excluded.balance",
            self.moved.items(),
        )
        for month, spent in self.spent.items():
            for account, micro in spent.items():
                caps.spend(self._db, account, month, micro)
        self._db.execute("UPDATE journal_end SET seq = ?, posting = ?, hash = ?", (self._seq, self._posting, self._hash))


def append(db: sqlite3.Connection, at: Instant, kind: str, key: str, lines: Sequence[tuple[str, Credits]], **about: Any) -> None:
    """Add one posting and move the balances. about: as of `Pen.append`. Raises Invalid if it is not balanced."""
    check_balanced(amount for _, amount in lines)
    pen = Pen(db)
    pen.append(at, kind, key, [(account, amount.micro) for account, amount in lines], **about)
    pen.flush()


def chained(before: bytes, row: Row) -> bytes:
    """The hash of a row: SHA-256 of the hash before it and the row as compact JSON."""
    seq, at, posting, account, amount, kind, key, run, until, memo = row
    texts = f"{_text(kind)},{_text(key)},{_text(run)},{until},{_text(memo)}"
    return hashlib.sha256(before + f"[{seq},{at},{posting},{_text(account)},{amount},{texts}]".encode()).digest()


def entries(db: sqlite3.Connection, account: str, after: int, limit: int, since: Instant, until: Instant) -> tuple[Entry, ...]:
    rows = db.execute(
        f"SELECT {COLUMNS} FROM journal WHERE account = ? AND seq > ? AND at >= ? AND at < ? ORDER BY seq LIMIT ?",  # noqa: S608
        (account, after, since.ms, until.ms, limit),
    )
    return tuple(_entry(row) for row in rows)


def all_entries(db: sqlite3.Connection, since: Instant, until: Instant) -> Iterator[Entry]:
    """Of every account, one after another, within a snapshot."""
    wanted = f"SELECT {COLUMNS} FROM journal WHERE at >= ? AND at < ? ORDER BY seq"  # noqa: S608
    yield from (_entry(row) for row in db.execute(wanted, (since.ms, until.ms)))


def _entry(row: Row) -> Entry:
    seq, at, posting, name, amount, kind, key, run, ran, memo = row
    return Entry(seq, Instant(at), posting, name, Credits(amount), kind, key, run, Span(ran), memo)


def turnover(db: sqlite3.Connection, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
    rows = db.execute(
        "SELECT kind, sum(amount) FROM journal WHERE account = ? AND at >= ? AND at < ? GROUP BY kind ORDER BY kind",
        (account, since.ms, until.ms),
    )
    return {kind: Credits(amount) for kind, amount in rows}
