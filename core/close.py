"""Closing a job: final charge, hold given back, usage told, manifest, terminal phase. No GPU waits for any of it.

Each step may be taken twice: a charge posts totals, a void is remembered, a usage event is known by its id, a manifest is
the same bytes. Who deletes a job's object does not wait for the credit service either: what is owed goes to the arrears,
and then the object goes.
"""

from __future__ import annotations

from attrs import evolve

from core import lifecycle
from core.arrears import owe
from core.charges import final_charges
from core.funding import fund
from core.house import House
from core.manifest import manifest, manifest_key
from core.tick import budget_told
from core.usage import final_usage
from ports.credits import ChargeAnswer, ChargeState
from ports.errors import Unavailable
from ports.units import Credits
from ports.workloads import RESULT_STORED, Job, JobStatus, Phase


def settle(house: House, job: Job) -> Job:
    """Whatever remains to be done for a job that holds no GPU; gives it as it is then. Raises Refused, Conflict or Unavailable."""
    if job.status.phase is Phase.PENDING:
        return fund(house, job)
    return close(house, job) if job.status.phase is Phase.CLOSING else job


def close(house: House, job: Job) -> Job:
    """Raises Unavailable (try again) or Conflict (look again); the phase is terminal after it."""
    if job.status.run is not None and not job.status.holds(RESULT_STORED):
        return job
    status = _paid(house, job)
    house.blobs.put(manifest_key(job.id), [manifest(evolve(job, status=status), house.clock.now())])
    return house.workloads.replace(evolve(job, status=status))


def _paid(house: House, job: Job) -> JobStatus:
    """The final charge is posted, or, if the object is to go and the credit service is away, written down as owed."""
    alarm = ""
    charged = Credits(0)
    if job.spec.billed:
        charges = final_charges(job)
        try:
            answers = house.credits.charge(charges) if charges else ()
            house.credits.void(job.uid)
            if usage := final_usage(charges, answers, house.clock.now()):
                house.metering.record(usage)
        except Unavailable:
            if not job.leaving:
                raise
            owe(house, job)
            return lifecycle.in_arrears(job.status, house.clock.now())
        alarm = "; ".join(answer.detail for answer in answers if answer.state is ChargeState.REFUSED)
        charged = sum_of(answers)
    now = house.clock.now()
    return lifecycle.closed(budget_told(job, charged, now) or job.status, charged, now, job.spec.billed, alarm)


def sum_of(answers: tuple[ChargeAnswer, ...]) -> Credits:
    return Credits(sum(answer.charged.micro for answer in answers))
