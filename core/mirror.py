"""A gateway's reading copy of what is unfinished, kept fresh by the store's changes.

It answers what would otherwise be a scan: a job's position in the queue, who is before it, and which slots are held. It never
decides anything that the store has not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from core.inventory import Fleet, fold
from core.queue import Shape, shape_of
from core.waiting import compete
from ports.nodes import NodeRecord
from ports.workloads import TERMINAL, Changes, Job, Phase, RunState


class Mirror:
    """Not thread-safe: one thread applies, and whoever reads beside it takes the same lock."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._queue: list[tuple[int, str]] = []
        self._lines: dict[Shape, list[tuple[int, str]]] = {}
        self._live: dict[str, Job] = {}

    def apply(self, changes: Changes) -> tuple[Job, ...]:
        """Fold changes in; gives the jobs whose state is newer than before."""
        gone = changes.deleted
        if changes.whole:
            gone = tuple(self._jobs.keys() - {job.id for job in changes.jobs})
        self.seed(changes.jobs)
        for job_id in gone:
            self._drop(job_id)
        return changes.jobs

    def seed(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._drop(job.id)
            if job.status.phase in TERMINAL:
                continue
            self._jobs[job.id] = job
            if job.status.phase is Phase.PENDING:
                insort(self._queue, (job.created_at.ms, job.id))
                insort(self._lines.setdefault(shape_of(job), []), (job.created_at.ms, job.id))
            if any(run.state is not RunState.ENDED for run in job.status.runs):
                self._live[job.id] = job

    def position(self, job_id: str) -> int:
        """Its place among all that wait, from 1; 0 if it does not wait."""
        job = self._jobs.get(job_id)
        if job is None or job.status.phase is not Phase.PENDING:
            return 0
        return bisect_left(self._queue, (job.created_at.ms, job.id)) + 1

    def ahead(self, job_id: str) -> int:
        """How many earlier jobs wait for GPUs that this one could use; 0 if it does not wait."""
        job = self._jobs.get(job_id)
        if job is None or job.status.phase is not Phase.PENDING:
            return 0
        shape, place = shape_of(job), (job.created_at.ms, job.id)
        return sum(bisect_left(line, place) for other, line in self._lines.items() if compete(shape, other))

    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._queue)

    def queue(self) -> tuple[Job, ...]:
        """All that wait, oldest first."""
        return tuple(self._jobs[job_id] for _, job_id in self._queue)

    def phases(self) -> dict[Phase, int]:
        """How many unfinished jobs are in each phase."""
        counts = dict.fromkeys(set(Phase) - TERMINAL, 0)
        for job in self._jobs.values():
            counts[job.status.phase] += 1
        return counts

    def fleet(self, records: Iterable[NodeRecord]) -> Fleet:
        return fold(records, self._live.values())

    def _drop(self, job_id: str) -> None:
        old = self._jobs.pop(job_id, None)
        self._live.pop(job_id, None)
        if old is not None and old.status.phase is Phase.PENDING:
            place, shape = (old.created_at.ms, old.id), shape_of(old)
            line = self._lines[shape]
            for each in (self._queue, line):
                del each[bisect_left(each, place)]
            if not line:
                del self._lines[shape]
