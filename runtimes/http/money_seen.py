"""Holds and charges as a gateway sees them pass by, for metrics only. The bill is the journal's."""

from __future__ import annotations

from collections.abc import Iterable

from ports.units import Credits
from ports.workloads import HOLD_VOIDED, TERMINAL, Job

ENDED = 100_000  # jobs that have ended and are remembered, since a store may tell of one again


class MoneySeen:
    """charged: what was charged since this process began to look."""

    def __init__(self) -> None:
        self.charged = Credits(0)
        self._held: dict[str, Credits] = {}
        self._charged: dict[str, Credits] = {}
        self._ended: dict[str, None] = {}  # uids, oldest first

    @property
    def held(self) -> Credits:
        """The sum of holds of unfinished jobs."""
        return sum(self._held.values(), start=Credits(0))

    def succeed(self, before: MoneySeen) -> None:
        """Go on where that one, of the same process, was when the store had to be read anew."""
        self.charged, self._ended = before.charged, before._ended

    def seed(self, jobs: Iterable[Job]) -> None:
        """Jobs as they are: what was charged before does not count."""
        for job in jobs:
            self._held[job.id], self._charged[job.id] = job.spec.hold, job.status.charged

    def see(self, jobs: Iterable[Job], deleted: Iterable[str]) -> None:
        for job in jobs:
            if job.uid in self._ended:
                continue
            self.charged += job.status.charged - self._charged.get(job.id, Credits(0))
            self._charged[job.id] = job.status.charged
            if job.status.phase in TERMINAL or job.status.holds(HOLD_VOIDED):
                self._held.pop(job.id, None)
            else:
                self._held[job.id] = job.spec.hold
            if job.status.phase in TERMINAL:
                self._end(job)
        for job_id in deleted:
            self._held.pop(job_id, None)
            self._charged.pop(job_id, None)

    def _end(self, job: Job) -> None:
        self._charged.pop(job.id)
        self._ended[job.uid] = None
        if len(self._ended) > ENDED:
            del self._ended[next(iter(self._ended))]
