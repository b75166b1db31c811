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
from core.diagnostics import diagnostics, diagnostics_key
from core.funding import fund
from core.house import House
from core.manifest import manifest, manifest_key
from core.tick import budget_told
from core.usage import FINAL, usages
from ports.credits import ChargeAnswer, ChargeState
from ports.errors import Unavailable
from ports.units import Credits, Instant
from ports.workloads import RESULT_STORED, Job, JobStatus, Phase


def settle(house: House, job: Job) -> Job:
    """Whatever remains to be done for a job that holds no GPU; gives it as it is then. Raises Refused, Conflict or Unavailable."""
    if job.status.phase is Phase.PENDING:
        return fund(house, job)
    return close(house, job) if job.status.phase is Phase.CLOSING else job


def close(house: House, job: Job) -> Job:
    """Raises Unavailable (try again) or Conflict (look again); the phase is terminal after it.

    A blob store that is away for longer than a result waits for it keeps no job open: it ends without a manifest.
    """
    if job.status.run is not None and not job.status.holds(RESULT_STORED):
        return job
    closed, now = evolve(job, status=_paid(house, job)), house.clock.now()
    try:
        _write_down(house, closed, now)
    except Unavailable:
        if now - _settled_since(job) <= house.terms.result_bound:
            raise
    return house.workloads.replace(closed)


def _write_down(house: House, job: Job, now: Instant) -> None:
    """For a reader of the bucket alone. The manifest comes last: where it is, the rest is."""
    run = job.status.run
    if run is not None and job.status.phase is not Phase.COMPLETED:
        names = dict.fromkeys(slot.node for slot in run.placement)
        nodes = [record for name in names if (record := house.nodes.get(name)) is not None]
        house.blobs.put(diagnostics_key(job), [diagnostics(job, nodes, now)])
    house.blobs.put(manifest_key(job.id), [manifest(job, now)])


def _settled_since(job: Job) -> Instant:
    """Since when nothing but the blob store and the money can hold it up."""
    run = job.status.run
    return run.ended_at if run is not None and run.ended_at is not None else job.created_at


def _paid(house: House, job: Job) -> JobStatus:
    """The final charge is posted, or, if the object is to go and the credit service is away, written down as owed."""
    alarm = ""
    charged = Credits(0)
    if job.spec.billed:
        charges = final_charges(job)
        try:
            answers = house.credits.charge(charges) if charges else ()
            house.credits.void(job.uid)
            if usage := usages(charges, answers, FINAL, house.clock.now()):
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
