"""Reading and cancelling jobs, archived ones among them. Another user's job does not exist."""

from __future__ import annotations

from attrs import evolve

from core.callers import Caller
from core.history import pages, recall
from core.house import House
from core.lifecycle import cancel_asked
from ports.errors import Conflict, NotFound
from ports.workloads import TERMINAL, Job, JobFilter, Page, Phase


def glance(house: House, caller: Caller, job_id: str) -> Job | None:
    """What `find` would give, where that can be told at once; None: ask `find`."""
    job = house.workloads.peek(job_id)
    return job if job is not None and (caller.admin or job.spec.user == caller.user) else None


def find(house: House, caller: Caller, job_id: str) -> Job:
    """Raises NotFound if there is none, or none of this caller's; an admin sees all."""
    job = recall(house, job_id)
    if job is None or not (caller.admin or job.spec.user == caller.user):
        raise NotFound(f"There is no job {job_id!a:.80}.", "id", "`gridweave ps` lists your jobs.", job_id)
    return job


def listing(house: House, caller: Caller, which: JobFilter, cursor: str = "", limit: int = 100) -> Page:
    """The caller's jobs, newest first; an admin's filter may name any user or none."""
    if not caller.admin:
        which = evolve(which, user=caller.user)
    return pages(house, which, cursor, limit)


def cancel(house: House, caller: Caller, job_id: str) -> Job:
    """Flag a job; the scheduler ends it. Flagging twice is flagging once, and what has ended stays as it ended."""
    while True:
        job = find(house, caller, job_id)
        if job.status.phase in TERMINAL or job.status.phase is Phase.CLOSING or job.status.cancel is not None:
            return job
        try:
            asked = cancel_asked(job.status, house.clock.now(), by_admin=job.spec.user != caller.user)
            return house.workloads.replace(evolve(job, status=asked))
        except Conflict:
            continue  # somebody moved it on: look again
