"""Gridweave's own usage export (`GET /v1/usage` as text/csv) as a trace: what ran, replayed on another fleet or price list.

A posting says when, which run, how long it has run and what it cost, and not how much VRAM it held. That follows from
the cost by the formula of the tariff given here (`vram_rate` per GB and hour): exact where the run was billed by it, an
estimate where a GPU model has a price of its own. A run counts as submitted when it started: its wait is not in the export.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from attrs import frozen, mutable

from core.owners import FREE, PAID
from core.simulation.submissions import Submission
from core.simulation.trace import Machine
from ports.credits import user_account
from ports.errors import Invalid
from ports.tariffs import Tariff
from ports.units import MIB_PER_GB, MS_PER_HOUR, Credits, Instant, Mib, Span
from ports.workloads import Ask
from runtimes.sim.rows import Row, columns, rows, some

COLUMNS = ("at", "account", "run", "kind", "amount", "ran_ms")
_USER = user_account("")
_MOST_MS = 10**15


@frozen
class Used:
    """A run as the export knows it. start: milliseconds since 1970. paid: micro-credits in all."""

    run: str
    user: str
    start: int
    ran: int
    paid: int


@mutable
class _Run:
    user: str
    end: int = 0
    ran: int = 0
    paid: int = 0


def is_usage(path: Path) -> bool:
    """Whether its first line is that of a usage export."""
    return set(COLUMNS) <= set(columns(path))


def read_usage(path: Path) -> tuple[Used, ...]:
    """Runs that users were charged for, by start. Raises Invalid."""
    found: dict[str, _Run] = {}
    for row in rows(path, COLUMNS):
        if row.text("kind") != "charge" or not row.text("account").startswith(_USER) or not row.text("run"):
            continue  # earnings of a provider, grants
        run = found.setdefault(row.text("run"), _Run(row.text("account").removeprefix(_USER)))
        ran = row.whole("ran_ms", 0, _MOST_MS)
        run.paid -= Credits.parse(row.text("amount"), f"{path}, line {row.line}: amount").micro
        if ran >= run.ran:
            run.ran, run.end = ran, _instant(row)
    used = [Used(name, run.user, run.end - run.ran, run.ran, run.paid) for name, run in found.items() if run.ran and run.paid > 0]
    return some(path, sorted(used, key=lambda each: (each.start, each.run)), "charged runs")


def _instant(row: Row) -> int:
    try:
        at = datetime.fromisoformat(row.text("at"))
    except ValueError as error:
        raise row.wrong("at", row.text("at"), "Give a time as in 2026-11-29T17:00:00.000Z.") from error
    if at.tzinfo is None:
        raise row.wrong("at", row.text("at"), "Give it with its offset from UTC, as in 2026-11-29T17:00:00.000Z.")
    return round(at.timestamp() * 1000)


def submissions(
    used: Sequence[Used], machines: Sequence[Machine], tariff: Tariff, seed: int, free_share: float, speed: float
) -> list[Submission]:
    """Jobs as they were run. The plan, which the export does not tell, is drawn; speed: as with a trace. Raises Invalid."""
    if not tariff.vram_rate:
        raise Invalid("VRAM can't be told from a cost at a --vram-rate of 0.", "--vram-rate", "Give the rate that was in force.", "0")
    dice, start = random.Random(seed), used[0].start  # noqa: S311 - no secret is made of it
    largest = max(each.total.n for each in machines)
    return [
        Submission(
            f"{at:06d}-{each.run.replace('/', '-')}",
            Instant(int((each.start - start) / speed)),
            Span(each.ran),
            _ask(each, tariff, largest),
            each.user,
            FREE if dice.random() < free_share else PAID,
        )
        for at, each in enumerate(used)
    ]


def _ask(used: Used, tariff: Tariff, largest: int) -> Ask:
    """More than any GPU has was held on several GPUs of one node: on as few as could hold it."""
    per_hour = max(0, used.paid * MS_PER_HOUR // used.ran - tariff.base_rate)
    mib = max(1, round(per_hour * MIB_PER_GB / tariff.vram_rate))
    gpus = -(-mib // largest)
    return Ask(Mib(-(-mib // gpus)), gpus)
