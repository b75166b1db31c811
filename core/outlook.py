"""When the money for a running job ends, if nothing changes: its cap or its user's balance, whichever is sooner."""

from __future__ import annotations

from fractions import Fraction

from core.inventory import Fleet
from core.pricing import rate
from ports.budgets import cap_bound
from ports.months import FURTHEST
from ports.units import MS_PER_HOUR, Credits, Instant, Span
from ports.workloads import Job, RunState


def money_ends(job: Job, fleet: Fleet, balance: Credits | None, now: Instant) -> Instant | None:
    """balance: what its user may still spend, as of the last billing round; None if it can't be told. Everything of
    his that runs draws on it.

    None if the job does not run, or nothing bounds it within any calendar.
    """
    run = job.status.run
    if run is None or run.state is not RunState.RUNNING or not job.spec.billed:
        return None
    found = []
    capped = cap_bound(job)
    if capped is not None:
        found.append(max(0, capped.ms - fleet.ran(run).ms))
    drawn = _drawn(job.spec.user, fleet)
    if balance is not None and drawn > 0:
        found.append(int(max(0, balance.micro) * MS_PER_HOUR / drawn))
    ends = now + Span(min(found)) if found else None
    return ends if ends is not None and ends < FURTHEST else None


def _drawn(user: str, fleet: Fleet) -> Fraction:
    """Micro-credits per hour of all that runs of that user."""
    prices = (run.price for job in fleet.live if job.spec.user == user for run in job.status.runs if run.state is RunState.RUNNING)
    return sum((rate(price).fraction for price in prices), Fraction(0))
