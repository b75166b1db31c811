"""When the pods of an openb pod list came and how long they ran: what a replay needs beyond their GPUs.

    creation_time, scheduled_time, deletion_time     seconds from the start of the trace; scheduled_time may be empty

A pod ran from scheduled_time to deletion_time. One that was never scheduled is taken to have wanted its GPUs for as
long as it was there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from core.owners import FREE, PAID
from core.simulation.arrivals import Arrivals
from core.simulation.submissions import Submission
from core.simulation.trace import Machine, Pod
from ports.errors import Invalid
from ports.units import Instant, Span
from runtimes.sim.openb import pod_of
from runtimes.sim.rows import columns, rows, some

TIMES = ("creation_time", "deletion_time", "scheduled_time")
USERS = 20  # of each plan
MOST_SECONDS = 10**10


@frozen
class Timed:
    """A pod that came at `at` and ran for `ran`; both in milliseconds, `at` from the start of the trace."""

    name: str
    pod: Pod
    at: int
    ran: int


def read_timed(path: Path) -> tuple[Timed, ...]:
    """The rows that ask for GPUs. Raises Invalid."""
    named = columns(path)
    if named and not set(TIMES) <= set(named):
        missing = ", ".join(each for each in TIMES if each not in named)
        raise Invalid(f"{path} tells no times: it has no {missing}.", "file", "A replay needs them; fill and churn don't.", str(path))
    found = []
    for row in rows(path, ("name", "num_gpu", "gpu_milli", *TIMES)):
        pod = pod_of(row)
        if pod is None:
            continue
        came, gone = row.whole("creation_time", 0, MOST_SECONDS), row.whole("deletion_time", 0, MOST_SECONDS)
        start = row.whole("scheduled_time", 0, MOST_SECONDS) if row.text("scheduled_time") else came
        if gone < max(came, start):
            raise row.wrong("deletion_time", row.text("deletion_time"), "Give a time that is not before creation and scheduling.")
        found.append(Timed(row.text("name"), pod, came * 1000, (gone - start) * 1000))
    return some(path, found, "rows that ask for GPUs")


def between(timed: Sequence[Timed], first_day: int, last_day: int) -> tuple[Timed, ...]:
    """Those that came from the start of one day of the trace to the end of another, counted from 0. Raises Invalid if there are none."""
    found = tuple(each for each in timed if first_day * DAY_MS <= each.at < (last_day + 1) * DAY_MS)
    if not found:
        last = max(each.at for each in timed) // DAY_MS
        raise Invalid(f"Nothing came on the days {first_day}-{last_day}.", "--days", f"Give days from 0 to {last}.")
    return found


DAY_MS = 24 * 3_600_000


def submissions(timed: Sequence[Timed], machines: Sequence[Machine], seed: int, free_share: float, speed: float) -> list[Submission]:
    """Jobs of users. Chance (the reference model of each, its user and plan) comes from the seed alone.

    free_share: of jobs, those of the free plan. speed: they come that many times as fast, and run as long as they did.
    """
    dice, drawn = random.Random(seed), Arrivals(machines, [each.pod for each in timed])  # noqa: S311 - no secret is made of it
    start = min(each.at for each in timed)
    return [
        Submission(
            f"{at:06d}-{each.name}",
            Instant(int((each.at - start) / speed)),
            Span(each.ran),
            drawn.ask(each.pod, dice),
            f"{plan}-{dice.randrange(USERS):02d}",
            plan,
        )
        for at, each in enumerate(sorted(timed, key=lambda each: each.at))
        for plan in [FREE if dice.random() < free_share else PAID]
    ]
