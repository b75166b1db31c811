"""A hard cap on what a job may cost: how long a run may last for it, and which part of it is spent.

The cap becomes a bound on running time when the run is placed, since its price is then fixed; the agent ends the run by
its own clock, so that the cap holds whoever else is away.
"""

from __future__ import annotations

from fractions import Fraction

from ports.tariffs import Price
from ports.units import MS_PER_HOUR, Credits, Span
from ports.workloads import Job

STEPS = (50, 80, 100)  # per cent of a cap at which its user is told


def lasts(price: Price, left: Credits) -> Span | None:
    """The longest time that surely costs no more than what is left; None: for ever."""
    hourly = sum((line.rate.fraction for line in price.lines), Fraction(0))
    return None if hourly <= 0 else Span(int(max(0, left.micro) * MS_PER_HOUR / hourly))


def cost(price: Price, ran: Span) -> Credits:
    return Credits(sum(line.rate.prorate_floor(ran).micro for line in price.lines))


def cap_bound(job: Job) -> Span | None:
    """How long the newest run may last by the job's cap; None without one."""
    run = job.status.run
    if job.spec.cap is None or run is None or not job.spec.billed:
        return None
    before = sum((cost(each.price, each.ran) for each in job.status.runs[:-1]), start=Credits(0))
    return lasts(run.price, job.spec.cap - before)


def bound(job: Job) -> Span | None:
    """How long the newest run may last, by whatever bounds it."""
    return min((each for each in (job.spec.max_runtime, cap_bound(job)) if each is not None), default=None)


def step(spent: Credits, cap: Credits) -> int:
    """The highest of `STEPS` that is reached, 0 if none is. Of a cap of 0 all is spent at once."""
    return max((each for each in STEPS if spent.micro * 100 >= cap.micro * each), default=0)
