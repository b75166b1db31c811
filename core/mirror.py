"""A gateway's reading copy of what is unfinished, kept fresh by the store's changes.

It answers what would otherwise be a scan: a job's position in the queue, who is before it, and which slots are held. It never
decides anything that the store has not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable

from core.inventory import Fleet, fold
from core.policies import Policy
from core.queue import Shape, shape_of
from core.waiting import compete
from ports.nodes import NodeRecord
from ports.workloads import TERMINAL, Changes, Job, Phase, RunState


class Mirror:
    """Not thread-safe: one thread applies, and whoever reads beside it takes the same lock.

    policy: None for best fit. It hears of the jobs that the scheduler's own hears of, so that an estimate places as the scheduler
    does. The two begin to learn when their processes start, and differ by what came in between.

    revision: grows whenever `fleet` would give something else for the same records. A job that only waits changes no fleet.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.revision = 0
        self._policy = policy
        self._jobs: dict[str, Job] = {}
        self._queue: list[tuple[int, str]] = []
        self._lines: dict[Shape, list[tuple[int, str]]] = {}
        self._live: dict[str, Job] = {}
        self._sizes: Counter[int] = Counter()  # MiB by MiB per GPU, as the policy knows it

    def apply(self, changes: Changes) -> tuple[Job, ...]:
        """Fold changes in; gives the jobs whose state is newer than before."""
        gone = changes.deleted
        if changes.whole:
            gone = tuple(self._jobs.keys() - {job.id for job in changes.jobs})
        self.seed(changes.jobs)
        for job_id in gone:
            self._unlearn(job_id)
            self._drop(job_id)
        return changes.jobs

    def seed(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if self._policy is not None:
                self._learn(self._policy, job)
                self.revision += 1
            self._drop(job.id)
            if job.status.phase in TERMINAL:
                continue
            self._jobs[job.id] = job
            if job.status.phase is Phase.PENDING:
                insort(self._queue, (job.created_at.ms, job.id))
                insort(self._lines.setdefault(shape_of(job), []), (job.created_at.ms, job.id))
            if any(run.state is not RunState.ENDED for run in job.status.runs):
                self._live[job.id] = job
                self.revision += 1

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
        if self._policy is None:
            return fold(records, self._live.values())
        known = tuple(records)
        sizes: Counter[int] = Counter()
        for record in known:
            for gpu in record.status.gpus:
                sizes[gpu.total.n] += gpu.total.n
        if sizes != self._sizes:
            self._sizes = sizes
            self._policy.fleet(sizes)
        return fold(known, self._live.values(), self._policy.twin())

    def succeed(self, older: Mirror) -> None:
        """Take the place of an older copy, and learn on where it stopped."""
        policy = older._policy
        if policy is not None:
            for job in self._jobs.values():
                older._learn(policy, job)
            for job_id in older._jobs.keys() - self._jobs.keys():
                older._unlearn(job_id)
        self._policy, self._sizes = policy, older._sizes
        self.revision += older.revision + 1

    def _unlearn(self, job_id: str) -> None:
        """What it had booked is free."""
        old = self._jobs.get(job_id)
        if self._policy is not None and old is not None:
            self._policy.freed(_booked(old))
            self.revision += 1

    def _learn(self, policy: Policy, job: Job) -> None:
        """A job that has come, and what it has booked or given back since it was last seen."""
        old = self._jobs.get(job.id)
        if old is None and job.status.phase is Phase.PENDING and not job.status.runs:
            policy.heard(job.spec.ask)
        more = _booked(job) - (0 if old is None else _booked(old))
        if more > 0:
            policy.booked(more)
        elif more < 0:
            policy.freed(-more)

    def _drop(self, job_id: str) -> None:
        old = self._jobs.pop(job_id, None)
        if self._live.pop(job_id, None) is not None:
            self.revision += 1
        if old is not None and old.status.phase is Phase.PENDING:
            place, shape = (old.created_at.ms, old.id), shape_of(old)
            line = self._lines[shape]
            for each in (self._queue, line):
                del each[bisect_left(each, place)]
            if not line:
                del self._lines[shape]


def _booked(job: Job) -> int:
    """MiB that its runs hold."""
    return sum(slot.mib.n for run in job.status.runs if run.state is not RunState.ENDED for slot in run.placement)
