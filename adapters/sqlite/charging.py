"""Charges posted within one transaction, each by itself: the difference to the highest totals seen, and what the payer has then.

A round of the biller brings hundreds at a time. So what they need is read in few statements, kept up to date in memory from
one charge to the next, and written in few statements at the end; a charge sees what those before it have done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from attrs import define, field, frozen

from adapters.sqlite import caps, journal
from ports.credits import Account, Charge, ChargeAnswer, ChargeState
from ports.months import Month
from ports.units import Credits, Instant

AT_ONCE = 500  # charges that are looked up by one statement


def charged(db: sqlite3.Connection, now: Instant, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
    """In their order."""
    charging = Charging(db, now)
    charging.look_up(charges)
    answers = tuple(charging.charge(each) for each in charges)
    charging.flush()
    return answers


@frozen
class Highest:
    """What counts for a run so far. until: ms, -1 before the first charge. payer: "" before the first."""

    payer: str
    until: int
    totals: dict[str, int]

    @property
    def charged(self) -> Credits:
        return Credits(sum(self.totals.values()))


NONE = Highest("", -1, {})


@define
class Charging:
    """now: dates the rows."""

    db: sqlite3.Connection
    now: Instant
    month: Month = field(init=False)
    _pen: journal.Pen = field(init=False)
    _highest: dict[tuple[str, str], Highest] = field(factory=dict, init=False)
    _posted: dict[tuple[str, str], None] = field(factory=dict, init=False)
    _payers: dict[str, Account] = field(factory=dict, init=False)  # as they are stored

    def __attrs_post_init__(self) -> None:
        self.month, self._pen = Month.of(self.now), journal.Pen(self.db)

    def look_up(self, charges: Sequence[Charge]) -> None:
        """What was charged for their runs before."""
        for first in range(0, len(charges), AT_ONCE):
            runs = [(each.uid, str(each.run)) for each in charges[first : first + AT_ONCE]]
            wanted = f"WITH wanted (uid, run) AS (VALUES {', '.join(['(?, ?)'] * len(runs))}) SELECT"
            names = tuple(name for run in runs for name in run)
            totals: dict[tuple[str, str], dict[str, int]] = {}
            for uid, run, account, total in self.db.execute(f"{wanted} totals.* FROM wanted CROSS JOIN totals USING (uid, run)", names):
                totals.setdefault((uid, run), {})[account] = total
            for uid, run, payer, until in self.db.execute(f"{wanted} charges.* FROM wanted CROSS JOIN charges USING (uid, run)", names):
                self._highest[uid, run] = Highest(payer, until, totals.get((uid, run), {}))

    def charge(self, charge: Charge) -> ChargeAnswer:
        run = str(charge.run)
        highest = self._highest.get((charge.uid, run), NONE)
        fault = _fault(charge)
        if not fault and charge.until.ms <= highest.until:
            return self._answer(charge, ChargeState.STALE, highest.charged)
        fault = fault or _regress(charge, highest)
        if fault:
            self.db.execute(
                "INSERT INTO alarms (at, uid, run, until, detail) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (self.now.ms, charge.uid, run, max(-1, min(charge.until.ms, journal.LARGEST)), fault),  # it may be what is wrong
            )
            return self._answer(charge, ChargeState.REFUSED, highest.charged, fault)
        self._post_difference(charge, run, highest)
        return self._answer(charge, ChargeState.POSTED, self._highest[charge.uid, run].charged)

    def _post_difference(self, charge: Charge, run: str, highest: Highest) -> None:
        """The payer's line is always there, so that the journal alone tells how far a run is charged."""
        before, totals = highest.totals, {name: total.micro for name, total in sorted(charge.totals.items())}
        grown = [(name, total - before.get(name, 0)) for name, total in totals.items()]
        lines = [(charge.payer, -sum(amount for _, amount in grown)), *(line for line in grown if line[1])]
        self._pen.append(self.now, journal.CHARGE, charge.uid, lines, run=run, until=charge.until)
        self._highest[charge.uid, run] = Highest(charge.payer, charge.until.ms, {name: total for name, total in totals.items() if total})
        self._posted[charge.uid, run] = None

    def _payer(self, name: str) -> Account:
        """As it is after what was charged so far."""
        stored = self._payers.get(name)
        if stored is None:
            stored = self._payers[name] = account_of(self.db, name, self.month)
        balance = Credits(stored.balance.micro + self._pen.moved.get(name, 0))
        spent = stored.spent.micro + self._pen.spent.get(str(self.month), {}).get(name, 0) if stored.cap is not None else 0
        return Account(name, balance, stored.held, stored.plan, stored.cap, Credits(spent))

    def _answer(self, charge: Charge, state: ChargeState, total: Credits, fault: str = "") -> ChargeAnswer:
        payer = self._payer(charge.payer)
        if payer.cap is None:
            return ChargeAnswer(state, payer.balance, total, fault)
        step = caps.reached(self.db, charge.payer, self.month, payer.cap, payer.spent) if state is ChargeState.POSTED else 0
        return ChargeAnswer(state, payer.balance, total, fault, payer.cap - payer.spent, step, payer.cap, str(self.month))

    def flush(self) -> None:
        self._pen.flush()
        posted = [(uid, run, self._highest[uid, run]) for uid, run in self._posted]
        self.db.executemany(
            "INSERT INTO charges VALUES (?, ?, ?, ?) ON CONFLICT (uid, run) DO UPDATE SET until = excluded.until",
            [(uid, run, highest.payer, highest.until) for uid, run, highest in posted],
        )
        self.db.executemany(
            "INSERT INTO totals VALUES (?, ?, ?, ?) ON CONFLICT (uid, run, account) DO UPDATE SET total = excluded.total",
            [(uid, run, name, total) for uid, run, highest in posted for name, total in highest.totals.items()],
        )


def _fault(charge: Charge) -> str:
    """Why the charge can't be one at all, or ""."""
    for name in (charge.payer, *charge.totals):
        if not journal.is_account(name):
            return f"{name!r:.80} is no account"
    if not 0 <= charge.until.ms <= journal.LARGEST:
        return f"until is {charge.until.ms} ms"
    over = next((total for total in charge.totals.values() if not 0 <= total.micro <= journal.LARGEST), None)
    return "" if over is None else f"a total is {over}"


def _regress(charge: Charge, highest: Highest) -> str:
    """In what a later charge takes back an earlier one, or ""."""
    if highest.payer not in ("", charge.payer):
        return f"payer is {charge.payer}, and was {highest.payer}"
    for name, was in highest.totals.items():
        total = charge.totals.get(name, Credits(0))
        if total.micro < was:
            return f"total of {name} is {total}, and was {Credits(was)} at {highest.until} ms"
    return ""


_ACCOUNT = """SELECT coalesce(balance, 0), coalesce(held, 0), coalesce(plan, ''), cap, coalesce(spent.amount, 0)
    FROM (SELECT ? AS wanted) LEFT JOIN accounts ON accounts.name = wanted
    LEFT JOIN caps ON caps.account = wanted LEFT JOIN spent ON spent.account = wanted AND spent.month = ?"""


def account_of(db: sqlite3.Connection, name: str, month: Month) -> Account:
    balance, held, plan, cap, spent = db.execute(_ACCOUNT, (name, str(month))).fetchone()
    return Account(name, Credits(balance), Credits(held), plan, Credits(cap) if cap is not None else None, Credits(spent))
