"""Closing a job: final charge, hold given back, manifest, terminal phase. No GPU waits for any of it.

Each step may be taken twice: a charge posts totals, a void is remembered, a manifest is the same bytes.
"""

from __future__ import annotations

from attrs import evolve

from core import lifecycle
from core.charges import totals
from core.diagnostics import diagnostics, diagnostics_key
from core.funding import fund
from core.house import House
from core.manifest import manifest, manifest_key
from ports.credits import Charge, ChargeAnswer, ChargeState, user_account
from ports.errors import Unavailable
from ports.units import Credits, Instant, Span
from ports.workloads import RESULT_STORED, Job, Phase, RunState


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
    alarm = ""
    charged = Credits(0)
    if job.spec.billed:
        answers = house.credits.charge(final_charges(job)) if job.status.runs else ()
        alarm = "; ".join(answer.detail for answer in answers if answer.state is ChargeState.REFUSED)
        charged = sum_of(answers)
        house.credits.void(job.uid)
    now = house.clock.now()
    status = lifecycle.closed(job.status, charged, now, job.spec.billed, alarm)
    closed = evolve(job, status=status)
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


def final_charges(job: Job) -> tuple[Charge, ...]:
    """One for each run that ran."""
    return tuple(
        Charge(run.id, job.uid, user_account(job.spec.user), run.ran, totals(run.price, run.ran))
        for run in job.status.runs
        if run.state is RunState.ENDED and run.ran > Span(0)
    )


def sum_of(answers: tuple[ChargeAnswer, ...]) -> Credits:
    return Credits(sum(answer.charged.micro for answer in answers))
