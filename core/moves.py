"""What would let waiting jobs in: `core.advice` asked about the fleet as it is. Nothing is moved, nothing is written.

User code is started once per attempt, so to move what runs is to end it and to start it anew: only its user can say whether that
loses anything. Hence *movable* is a run whose job carries the label `movable=true`, and a run that is booked and has not been
started. What is in quarantine stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from core.advice import MOST_MOVES, Movable, NoPlan, Plan, advise
from core.inventory import Fleet
from core.owners import Pool, pools
from ports.errors import NotFound, Refused
from ports.workloads import Job, Run, RunState

MOVABLE = "movable"  # the label; its value is "true"


@frozen
class Advice:
    """Of one waiting job. position: in the queue, from 1."""

    job: Job
    position: int
    plan: Plan | NoPlan


def advice(fleet: Fleet, waiting: Sequence[Job], job_id: str = "", limit: int = 1, most: int = MOST_MOVES) -> tuple[Advice, ...]:
    """For the first `limit` jobs that wait, or for that one. waiting: oldest first. most: moves per plan.

    Each is looked at as if it were the next: what earlier jobs wait for is not kept from it. Raises NotFound, Invalid.
    """
    places = list(enumerate(waiting, 1))
    chosen = [(at, job) for at, job in places if job.id == job_id] if job_id else places[:limit]
    if job_id and not chosen:
        raise NotFound(f"No job {job_id!r:.80} waits for room.", "job", "`gridweave ps` shows which jobs are Pending.")
    view, candidates = fleet.ledger().view(), tuple(movable(fleet))
    return tuple(Advice(job, at, advise(view, job.spec.ask, _pools(job), candidates, most)) for at, job in chosen)


def movable(fleet: Fleet) -> Iterable[Movable]:
    """The runs that may be stopped and started elsewhere."""
    shut = {each.run for node in fleet.nodes for each in node.record.status.quarantine}
    for job in {job.id: job for job in fleet.live}.values():
        wanted = _pools(job)
        for run in job.status.runs:
            if wanted and may_move(job, run) and str(run.id) not in shut:
                yield Movable(run.id, run.placement, job.spec.ask, wanted)


def may_move(job: Job, run: Run) -> bool:
    if job.status.cancel is not None:
        return False
    return run.state is RunState.BOOKED or (run.state is RunState.RUNNING and job.spec.labels.get(MOVABLE) == "true")


def _pools(job: Job) -> tuple[Pool, ...]:
    try:
        return pools(job.spec.user, job.spec.plan, job.spec.ask.owner)
    except Refused:  # stored by a release with another policy: nothing is open to it
        return ()
