"""Closing a job: final charge, hold given back, usage told, manifest, terminal phase. No GPU waits for any of it.

Each step may be taken twice: a charge posts totals, a void is remembered, a usage event is known by its id, a manifest is
the same bytes.
"""

from __future__ import annotations

from attrs import evolve

from core import lifecycle
from core.charges import totals
from core.funding import fund
from core.house import House
from core.manifest import manifest, manifest_key
from core.tick import budget_told
from core.usage import FINAL, usage_of
from ports.credits import Charge, ChargeAnswer, ChargeState, user_account
from ports.units import Credits, Span
from ports.workloads import RESULT_STORED, Job, Phase, RunState


def settle(house: House, job: Job) -> Job:
    """Whatever remains to be done for a job that holds no GPU; gives it as it is then. Raises Refused, Conflict or Unavailable."""
    if job.status.phase is Phase.PENDING:
        return fund(house, job)
    return close(house, job) if job.status.phase is Phase.CLOSING else job


def close(house: House, job: Job) -> Job:
    """Raises Unavailable (try again) or Conflict (look again); the phase is terminal after it."""
    if job.status.run is not None and not job.status.holds(RESULT_STORED):
        return job
    alarm = ""
    charged = Credits(0)
    now = house.clock.now()
    if job.spec.billed:
        charges = final_charges(job)
        answers = house.credits.charge(charges) if charges else ()
        alarm = "; ".join(answer.detail for answer in answers if answer.state is ChargeState.REFUSED)
        charged = sum_of(answers)
        house.credits.void(job.uid)
        accepted = [charge for charge, answer in zip(charges, answers, strict=True) if answer.state is not ChargeState.REFUSED]
        if accepted:
            house.metering.record([usage_of(charge, job, FINAL, now) for charge in accepted])
    told = budget_told(job, charged, now) or job.status
    status = lifecycle.closed(told, charged, now, job.spec.billed, alarm)
    house.blobs.put(manifest_key(job.id), [manifest(evolve(job, status=status), now)])
    return house.workloads.replace(evolve(job, status=status))


def final_charges(job: Job) -> tuple[Charge, ...]:
    """One for each run that ran."""
    return tuple(
        Charge(run.id, job.uid, user_account(job.spec.user), run.ran, totals(run.price, run.ran))
        for run in job.status.runs
        if run.state is RunState.ENDED and run.ran > Span(0)
    )


def sum_of(answers: tuple[ChargeAnswer, ...]) -> Credits:
    return Credits(sum(answer.charged.micro for answer in answers))
