"""Proof of the journal: one pass over its rows, then a comparison with everything that is kept beside them.

The first thing that is wrong is named by its row; what comes after it may only follow from it. The pass keeps
one number per account and a few per run in memory, never the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from attrs import define, field, frozen

from adapters.sqlite import journal
from ports.credits import SPENDING, HoldState
from ports.months import Month
from ports.units import Instant


@frozen
class Audit:
    """rows: read and found right before the first fault. fault: "" if all is proved. seq: the first wrong row, 0 if it is not one row."""

    rows: int
    fault: str = ""
    seq: int = 0

    @property
    def sound(self) -> bool:
        return not self.fault


class _WrongError(Exception):
    """What is wrong, and at which row (0: beside the journal)."""

    def __init__(self, fault: str, seq: int = 0) -> None:
        super().__init__(fault)
        self.seq = seq


@define
class _Posting:
    """The one being read. balance: sum of its lines so far; it must end at 0."""

    number: int = 0
    first: int = 0
    balance: int = 0
    same: tuple[object, ...] = ()
    payer: str = ""


@define
class _Walk:
    """What the rows read so far come to."""

    rows: int = 0
    hash: bytes = bytes(32)
    posting: _Posting = field(factory=_Posting)
    balances: dict[str, int] = field(factory=dict)
    spent: dict[tuple[str, str], int] = field(factory=dict)  # (account, month)
    keys: set[str] = field(factory=set)
    charges: dict[tuple[str, str], tuple[str, int]] = field(factory=dict)  # (uid, run): payer and until
    totals: dict[tuple[str, str, str], int] = field(factory=dict)  # (uid, run, account)

    def step(self, row: journal.Row, stored: bytes) -> None:
        seq, at, number, account, amount, kind, key, run, until, memo = row
        if seq != self.rows + 1:
            raise _WrongError(f"row {self.rows + 1} is missing", self.rows + 1)
        if journal.chained(self.hash, row) != stored:
            raise _WrongError("the row is not what was hashed", seq)
        same = (at, kind, key, run, until, memo)
        if number != self.posting.number:
            self._begin(seq, number, account, same)
            if kind == journal.CHARGE:
                self._charged(seq, key, run, account, until)
            elif key in self.keys:
                raise _WrongError(f"key {key} is posted twice", seq)
            else:
                self.keys.add(key)
        elif same != self.posting.same:
            raise _WrongError("the row differs from its posting", seq)
        if kind == journal.CHARGE:
            self._add_charge(seq, key, run, account, amount)
        if kind in SPENDING and amount < 0 and account.startswith(journal.USERS):
            month = str(Month.of(Instant(at)))
            self.spent[account, month] = self.spent.get((account, month), 0) - amount
        self.posting.balance += amount
        self.balances[account] = self.balances.get(account, 0) + amount
        self.rows, self.hash = seq, stored

    def end(self) -> None:
        if self.posting.balance:
            raise _WrongError(f"posting {self.posting.number} sums to {self.posting.balance} micro-credits, not 0", self.posting.first)

    def _begin(self, seq: int, number: int, account: str, same: tuple[object, ...]) -> None:
        self.end()
        if number != self.posting.number + 1:
            raise _WrongError(f"posting {number} follows {self.posting.number}", seq)
        self.posting = _Posting(number, seq, 0, same, account)

    def _charged(self, seq: int, uid: str, run: str, payer: str, until: int) -> None:
        before = self.charges.get((uid, run))
        if before is not None and (before[0] != payer or before[1] >= until):
            raise _WrongError(f"the charge of {run} to {until} ms follows one to {before[1]} ms by {before[0]}", seq)
        self.charges[uid, run] = (payer, until)

    def _add_charge(self, seq: int, uid: str, run: str, account: str, amount: int) -> None:
        if seq == self.posting.first:
            if amount > 0:
                raise _WrongError("a charge pays its payer", seq)
        elif amount < 0:
            raise _WrongError(f"a total of {run} falls", seq)
        else:
            self.totals[uid, run, account] = self.totals.get((uid, run, account), 0) + amount


def audit(db: sqlite3.Connection) -> Audit:
    """Within a snapshot. Raises whatever SQLite raises; a fault of the books is an answer."""
    walk = _Walk()
    try:
        for *row, stored in db.execute(f"SELECT {journal.COLUMNS}, hash FROM journal ORDER BY seq"):  # noqa: S608
            walk.step(tuple(row), stored)
        walk.end()
        _compare(db, walk)
    except _WrongError as wrong:
        return Audit(walk.rows, str(wrong), wrong.seq)
    return Audit(walk.rows)


def _compare(db: sqlite3.Connection, walk: _Walk) -> None:
    end = db.execute("SELECT seq, posting, hash FROM journal_end").fetchone()
    if end != (walk.rows, walk.posting.number, walk.hash):
        raise _WrongError(f"the journal ends at row {walk.rows}, and was written to row {end[0]}", walk.rows + 1)
    _equal("balance of", walk.balances, db.execute("SELECT name, balance FROM accounts WHERE balance != 0"))
    charges = ((uid, run, payer, until) for uid, run, payer, until in db.execute("SELECT uid, run, payer, until FROM charges"))
    _equal("charge of", walk.charges, (((uid, run), (payer, until)) for uid, run, payer, until in charges))
    totals = db.execute("SELECT uid, run, account, total FROM totals")
    _equal("total of", walk.totals, (((uid, run, account), total) for uid, run, account, total in totals))
    spent = db.execute("SELECT account, month, amount FROM spent")
    _equal("spent by", walk.spent, (((account, month), amount) for account, month, amount in spent))
    _equal("key", dict.fromkeys(walk.keys, 1), db.execute("SELECT key, 1 FROM posted"))
    odd = db.execute(
        "SELECT key FROM holds WHERE amount < 0 OR state NOT IN (?, ?)", (HoldState.OPEN.value, HoldState.CLOSED.value)
    ).fetchone()
    if odd is not None:
        raise _WrongError(f"hold {odd[0]} is neither open nor closed, or below 0")
    held = db.execute("SELECT account, sum(amount) FROM holds WHERE state = ? GROUP BY account", (HoldState.OPEN.value,))
    _equal("held of", dict(held.fetchall()), db.execute("SELECT name, held FROM accounts WHERE held != 0"))


def _equal(what: str, proved: dict[Any, Any], kept: Iterable[tuple[Any, Any]]) -> None:
    """What is kept, zeros left out, is what the rows come to."""
    left = {key: value for key, value in proved.items() if value != 0}
    for key, value in kept:
        if left.pop(key, 0) != value:
            raise _WrongError(f"{what} {key}: {value} is kept, the rows give {proved.get(key, 0)}")
    if left:
        key, value = next(iter(left.items()))
        raise _WrongError(f"{what} {key}: nothing is kept, the rows give {value}")
