"""What users may spend in a month, what they have spent, and which steps of it they were told of. Within a transaction."""

from __future__ import annotations

import sqlite3

from ports.budgets import STEPS, step
from ports.months import Month
from ports.units import Credits


def spend(db: sqlite3.Connection, account: str, month: str, micro: int) -> None:
    db.execute(
        "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (account, month) DO UPDATE SET amount = amount + excluded.amount",
        (account, month, micro),
    )


def put(db: sqlite3.Connection, account: str, cap: Credits | None) -> None:
    db.execute("DELETE FROM caps WHERE account = ?", (account,))
    if cap is not None:
        db.execute("INSERT INTO caps VALUES (?, ?)", (account, cap.micro))


def reached(db: sqlite3.Connection, account: str, month: Month, cap: Credits, spent: Credits) -> int:
    """The highest step that is reached now and was not before in that month, 0 if there is none. It counts as told."""
    percent = step(spent, cap)
    told = [each for each in STEPS if each <= percent and _tell(db, account, month, each)]
    return max(told, default=0)


def _tell(db: sqlite3.Connection, account: str, month: Month, percent: int) -> bool:
    return db.execute("INSERT INTO cap_steps VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (account, str(month), percent)).rowcount > 0
