"""What providers have earned and not been paid yet, and the posting that says it was paid.

Everything dated before `until` counts as earned, and every payout ever made as paid, so that the same instant asked
twice, an earlier one afterwards, or two of them at once never pay anything again.
"""

from __future__ import annotations

import sqlite3

from attrs import frozen

from adapters.sqlite import journal
from ports.credits import PAID_OUT, PAYOUT
from ports.units import Credits, Instant

PROVIDERS = "provider:"


@frozen
class Payout:
    """account: the provider's. seq: the last entry of it that counts; account and seq are the posting's key."""

    account: str
    amount: Credits
    seq: int

    @property
    def key(self) -> str:
        return f"payout/{self.account}/{self.seq}"


def due(db: sqlite3.Connection, until: Instant) -> tuple[Payout, ...]:
    """By account; whoever has nothing due is left out."""
    rows = db.execute(
        "SELECT account, sum(CASE WHEN kind = :payout OR at < :until THEN amount ELSE 0 END) AS earned, max(seq) FROM journal"
        " WHERE account >= :first AND account < :last GROUP BY account HAVING earned > 0 ORDER BY account",
        {"payout": PAYOUT, "until": until.ms, "first": PROVIDERS, "last": "provider;"},  # ; follows : in ASCII
    )
    return tuple(Payout(account, Credits(amount), seq) for account, amount, seq in rows)


def pay(db: sqlite3.Connection, now: Instant, until: Instant) -> tuple[Payout, ...]:
    """Within a transaction that nobody else writes in."""
    found = due(db, until)
    for each in found:
        lines = ((each.account, -each.amount), (PAID_OUT, each.amount))
        journal.append(db, now, PAYOUT, each.key, lines, memo=f"earned before {until.ms}")
        db.execute("INSERT INTO posted VALUES (?)", (each.key,))
    return found
