"""Holds and charges as a gateway sees them pass by, for metrics only. The bill is the journal's."""

from __future__ import annotations

from collections.abc import Iterable

from ports.units import Credits
from ports.workloads import HOLD_VOIDED, TERMINAL, Job


class MoneySeen:
    """charged: what was charged since this process began to look."""

    def __init__(self) -> None:
        self.charged = Credits(0)
        self._held: dict[str, Credits] = {}
        self._charged: dict[str, Credits] = {}

    @property
    def held(self) -> Credits:
        """The sum of holds of unfinished jobs."""
        return sum(self._held.values(), start=Credits(0))

    def seed(self, jobs: Iterable[Job]) -> None:
        """Jobs as they are: what was charged before does not count."""
        for job in jobs:
            self._held[job.id], self._charged[job.id] = job.spec.hold, job.status.charged

    def see(self, jobs: Iterable[Job], deleted: Iterable[str]) -> None:
        for job in jobs:
            self.charged += job.status.charged - self._charged.get(job.id, Credits(0))
            if job.status.phase in TERMINAL or job.status.holds(HOLD_VOIDED):
                self._held.pop(job.id, None)
            else:
                self._held[job.id] = job.spec.hold
            self._charged[job.id] = job.status.charged
            if job.status.phase in TERMINAL:
                self._charged.pop(job.id)
        for job_id in deleted:
            self._held.pop(job_id, None)
            self._charged.pop(job_id, None)
