"""The embedded credit service: accounts, holds and charges over the journal in `credits.db`.

Each call is one transaction, so two processes, replays and a kill at any moment are harmless: a charge posts
only the difference to the highest totals seen, a hold and a one-off posting are known by their key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from attrs import frozen

from adapters.sqlite import caps, journal
from adapters.sqlite.audit import Audit, audit
from adapters.sqlite.charging import account_of, charged
from adapters.sqlite.database import Database
from adapters.sqlite.payouts import Payout, due, pay
from ports.clock import Clock
from ports.credits import BEGINNING, END, Account, Charge, ChargeAnswer, Entry, HoldAnswer, HoldState, user_account
from ports.errors import Invalid, KeyReused, Refused
from ports.months import Month
from ports.units import Credits, Instant, Span

PLANS = ("free", "paid")


@frozen
class Alarm:
    """A charge that was refused: a bug somewhere. until: as it came."""

    seq: int
    at: Instant
    uid: str
    run: str
    until: Span
    detail: str


class SqliteCredits:
    """`ports.credits.OperatedCredits`, with the operator's `alarms` and `verify` beside it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """clock: only dates the rows."""
        self._database = database
        self._clock = clock

    def account(self, name: str) -> Account:
        with self._database.snapshot() as db:
            return account_of(db, name, self._month())

    def _month(self) -> Month:
        return Month.of(self._clock.now())

    def set_plan(self, user: str, plan: str) -> Account:
        """Tell the service a user's plan, "free" or "paid". Raises Invalid for another."""
        if plan not in PLANS:
            raise Invalid(f"There is no plan {plan!r:.60}.", "plan", "Give free or paid.", plan)
        name = _checked(user_account(user))
        with self._database.write() as db:
            db.execute("INSERT INTO accounts VALUES (?, 0, 0, ?) ON CONFLICT (name) DO UPDATE SET plan = excluded.plan", (name, plan))
            return account_of(db, name, self._month())

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        """Also raises Invalid for a cap below 0."""
        _checked(account)
        if cap is not None and not 0 <= cap.micro <= journal.LARGEST:
            raise Invalid(f"A cap of {cap} credits can't be.", "cap", "Give 0 or more, or none.", str(cap))
        with self._database.write() as db:
            caps.put(db, account, cap)
            return account_of(db, account, self._month())

    # ------------------------------------------------------------ holds

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        """Also raises Invalid for an amount below 0, KeyReused for a key that holds another account's credits."""
        _checked(account)
        if not 0 <= amount.micro <= journal.LARGEST:
            raise Invalid(f"A hold of {amount} credits can't be.", "amount", "Give 0 or more.", str(amount))
        with self._database.write() as db:
            stored = db.execute("SELECT account, amount, have, state FROM holds WHERE key = ?", (key,)).fetchone()
            have = account_of(db, account, self._month()).available
            if stored is not None and stored[3] == HoldState.CLOSED:
                return HoldAnswer(HoldState.CLOSED, amount, have)
            if stored is not None:
                if stored[0] != account:
                    raise KeyReused("This key holds credits of another account.", "key", "Take a fresh key for each hold.")
                return HoldAnswer(HoldState.OPEN, Credits(stored[1]), Credits(stored[2]))
            if have < amount:
                return HoldAnswer(HoldState.REFUSED, amount, have)
            db.execute(
                "INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?)",
                (key, account, amount.micro, have.micro, HoldState.OPEN.value, self._clock.now().ms),
            )
            _add_held(db, account, amount.micro)
            return HoldAnswer(HoldState.OPEN, amount, have)

    def void(self, key: str) -> None:
        with self._database.write() as db:
            stored = db.execute("SELECT account, amount, state FROM holds WHERE key = ?", (key,)).fetchone()
            if stored is None:
                db.execute("INSERT INTO holds VALUES (?, '', 0, 0, ?, ?)", (key, HoldState.CLOSED.value, self._clock.now().ms))
            elif stored[2] == HoldState.OPEN:
                _close_hold(db, key, stored[0], stored[1])

    # ------------------------------------------------------------ postings

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        if not charges:
            return ()
        now = self._clock.now()
        with self._database.write() as db:
            return charged(db, now, charges)

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        _check_posting(key, kind, lines)
        with self._database.write() as db:
            return self._post(db, key, kind, lines, memo)

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        _check_posting(key, kind, lines)
        with self._database.write() as db:
            stored = db.execute("SELECT account, amount, state FROM holds WHERE key = ?", (key,)).fetchone()
            if stored is None or stored[2] != HoldState.OPEN:
                if stored is not None and _is_posted(db, key):
                    return False
                raise Refused("There is no open hold of that key.", "key", "Authorise it first; what was voided can't be captured.")
            account, amount, _ = stored
            if -lines.get(account, Credits(0)).micro > amount:
                raise Invalid(f"{Credits(amount)} credits are held, and more would be captured.", "lines", "Capture at most what is held.")
            _close_hold(db, key, account, amount)
            return self._post(db, key, kind, lines, memo)

    def _post(self, db: sqlite3.Connection, key: str, kind: str, lines: dict[str, Credits], memo: str) -> bool:
        if _is_posted(db, key):
            return False
        journal.append(db, self._clock.now(), kind, key, tuple(lines.items()), memo=memo)
        db.execute("INSERT INTO posted VALUES (?)", (key,))
        return True

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        with self._database.read() as db:
            return journal.entries(db, account, after, limit, since, until)

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        with self._database.read() as db:
            return journal.turnover(db, account, since, until)

    # ------------------------------------------------------------ for the operator

    def alarms(self, after: int = 0, limit: int = 1000) -> tuple[Alarm, ...]:
        """Refused charges with a number above `after`, oldest first; each is told once, however often it is sent."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT seq, at, uid, run, until, detail FROM alarms WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
            ).fetchall()
        return tuple(Alarm(seq, Instant(at), uid, run, Span(until), detail) for seq, at, uid, run, until, detail in rows)

    def export(self, since: Instant = BEGINNING, until: Instant = END) -> Iterator[Entry]:
        """Every entry of every account, oldest first, as it was at one moment."""
        with self._database.snapshot() as db:
            yield from journal.all_entries(db, since, until)

    def payouts(self, until: Instant, dry_run: bool = False) -> tuple[Payout, ...]:
        """Post to every provider what he has earned before `until` and not been paid; the same again pays nothing.

        dry_run: only say it. Raises Invalid for an instant that has not come yet: more could be earned before it.
        """
        now = self._clock.now()
        if until > now:
            raise Invalid(
                "That time has not come yet.", "until", "Give a time in the past, such as the first of this month.", str(until.ms)
            )
        if dry_run:
            with self._database.snapshot() as db:
                return due(db, until)
        with self._database.write() as db:
            return pay(db, now, until)

    def verify(self) -> Audit:
        """Read the whole journal and prove it: zero sums, the hash chain, monotone totals, balances and holds."""
        with self._database.snapshot() as db:
            return audit(db)


# ---------------------------------------------------------------- inside a transaction


def _check_posting(key: str, kind: str, lines: dict[str, Credits]) -> None:
    if kind == journal.CHARGE or not kind or not key:
        raise Refused("A one-off posting needs a key, and a kind other than charge.", "kind", "Charges go through charge().")
    for name, amount in lines.items():
        if abs(amount.micro) > journal.LARGEST:
            raise Invalid(f"{amount} credits are too many for one posting.", "lines", "", str(amount))
        _checked(name)
    journal.check_balanced(lines.values())


def _is_posted(db: sqlite3.Connection, key: str) -> bool:
    return db.execute("SELECT 1 FROM posted WHERE key = ?", (key,)).fetchone() is not None


def _close_hold(db: sqlite3.Connection, key: str, account: str, amount: int) -> None:
    db.execute("UPDATE holds SET state = ? WHERE key = ?", (HoldState.CLOSED.value, key))
    _add_held(db, account, -amount)


def _add_held(db: sqlite3.Connection, account: str, micro: int) -> None:
    db.execute("INSERT INTO accounts VALUES (?, 0, ?, '') ON CONFLICT (name) DO UPDATE SET held = held + excluded.held", (account, micro))


def _checked(account: str) -> str:
    if not journal.is_account(account):
        raise Invalid(f"{account!r:.80} is no account.", "account", "Give user:<id>, provider:<id>, org, platform or issue.", account)
    return account
