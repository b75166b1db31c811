"""The credit service: balances, holds, charges. Every answer is safe to ask for again.

A charge posts totals, not increments: the service posts the difference to the highest that it has seen, so
replays, reordering and two billers are harmless. Accounts: `user:<id>`, `provider:<id>`, `org`, `platform`,
`issue`, from which credits that an admin grants come, and `payout`, into which goes what providers were paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from attrs import frozen

from ports.units import Credits, Instant, Span
from ports.workloads import RunId


def user_account(user: str) -> str:
    return f"user:{user}"


def owner_account(owner: str) -> str:
    """Who earns for that owner's hardware: `org`, or `provider:<id>`."""
    return owner


BEGINNING, END = Instant(-(2**53)), Instant(2**53)  # of all time
PLATFORM = "platform"
ISSUE = "issue"
PAID_OUT = "payout"
CHARGE, CALL = "charge", "call"  # kinds of postings by which a user spends
SPENDING = (CHARGE, CALL)
PAYOUT = "payout"  # the kind of a posting by which a provider is paid


@frozen
class Account:
    """balance: may be below 0. held: the sum of open holds. plan: "free" or "paid", as the service knows it; "" if it does not.

    cap: the most that it may spend in a month of UTC, None: no bound. spent: this month, by charges and captures.
    """

    name: str
    balance: Credits
    held: Credits
    plan: str = ""
    cap: Credits | None = None
    spent: Credits = Credits(0)

    @property
    def available(self) -> Credits:
        """What a new hold may take: of the balance, and of what is left of the month's cap."""
        free = self.balance if self.cap is None else min(self.balance, self.cap - self.spent)
        return free - self.held


class HoldState(StrEnum):
    OPEN = "open"
    REFUSED = "refused"  # not remembered: may be asked again
    CLOSED = "closed"  # voided before: this key can't be authorised any more


@frozen
class HoldAnswer:
    """need and have (what was available), as they were in the step that decided."""

    state: HoldState
    need: Credits
    have: Credits


@frozen
class Charge:
    """Totals of a run so far. payer: account. until: `ran` that they cover. totals: per credited account."""

    run: RunId
    uid: str
    payer: str
    until: Span
    totals: dict[str, Credits]


class ChargeState(StrEnum):
    POSTED = "posted"  # the difference to the highest seen, which may be 0, is in the journal
    STALE = "stale"  # an equal or later `until` is posted already: nothing to do
    REFUSED = "refused"  # a later `until` with a lower total: a bug somewhere; nothing was posted


@frozen
class ChargeAnswer:
    """balance: of the payer after it. charged: sum of the totals that count now.

    left: of the payer's cap of this month; None: he has none. step: the highest of 50, 80 and 100 per cent of it that this very
    charge has reached, 0 if none; it is lost with its answer. cap, month: of what `left` is, so that every answer tells how far the
    month is spent.
    """

    state: ChargeState
    balance: Credits
    charged: Credits
    detail: str = ""
    left: Credits | None = None
    step: int = 0
    cap: Credits | None = None
    month: str = ""


@frozen
class Entry:
    """One posting line of the journal: `amount` into (or, negative, out of) `account`. run: as text, "" if none."""

    seq: int
    at: Instant
    transaction: int
    account: str
    amount: Credits
    kind: str
    key: str
    run: str = ""
    until: Span = Span(0)
    memo: str = ""


class CreditService(Protocol):
    """Raises Unavailable when it does not answer; whether it acted is then unknown, and asking again is right."""

    def account(self, name: str) -> Account:
        """An account never heard of has a balance of 0."""
        ...

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        """Open a hold if what is available covers it, in one step. The same key again: the same hold."""
        ...

    def void(self, key: str) -> None:
        """Give a hold back, and bar a later authorise of that key. Doing it twice is doing it once."""
        ...

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        """Bound what that account may spend in a month of UTC. At the cap nothing new is held; a charge is never cut."""
        ...

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        """Each charge stands for itself, and is never refused for want of money."""
        ...

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        """A one-off posting whose lines sum to zero. False: that key was posted before. Raises Refused if they do not."""
        ...

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        """Turn a hold into a posting, in one step: the hold is given back whole and the lines are posted under its key.

        False: that key was captured before. The hold's account pays at most what was held. Raises Refused, with nothing
        done, if there is no such hold or it was voided, or the lines don't sum to zero.
        """
        ...

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        """Entries of one account with `seq` above `after`, oldest first, dated from `since` on and before `until`."""
        ...

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        """Per kind of posting the sum of an account's entries dated from `since` on and before `until`; none is left out for being 0."""
        ...


class OperatedCredits(CreditService, Protocol):
    """With what an operator of ours may do beside; a credit service of somebody else's need not have it."""

    def set_plan(self, user: str, plan: str) -> Account:
        """Tell the service a user's plan, "free" or "paid". Raises Invalid for another."""
        ...
