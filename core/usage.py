"""What a charge says to whoever meters. Its id is the same for the same run, kind and time of running, so that it counts once."""

from __future__ import annotations

from ports.credits import Charge
from ports.metering import Usage
from ports.units import Credits, Instant
from ports.workloads import Job

TICK, FINAL = "tick", "final"


def usage_of(charge: Charge, job: Job, kind: str, now: Instant) -> Usage:
    total = Credits(sum(each.micro for each in charge.totals.values()))
    return Usage(f"{job.uid}/{charge.run}/{kind}/{charge.until.ms}", now, job.spec.user, charge.run, kind, charge.until, total)
