"""A job as the live copy and the store show it together; and what was shown last, for who asks again and again."""

from __future__ import annotations

from typing import Any

from core.inventory import Fleet
from ports.units import Instant
from ports.workloads import Job
from runtimes.http.bodies import views
from runtimes.http.watch import Watch

_KEPT = 4_096  # answers


def view(watch: Watch, job: Job) -> views.JobView:
    return views.job_view(job, watch.fleet(), *_queued(watch, job))


def _queued(watch: Watch, job: Job) -> tuple[int, int]:
    """Its position in the queue, and how many are ahead of it."""
    return watch.position(job.id) or job.status.position, watch.ahead(job.id)


class Shown:
    """Statuses as bytes. Most are asked for many times before anything that they tell of changes. On the event loop only."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._fleet: Fleet | None = None  # of all that is kept: each says something about it
        self._kept: dict[str, tuple[Job, tuple[Any, ...], bytes]] = {}

    def of(self, job: Job, ends: Instant | None) -> bytes:
        """ends: when the money for it ends, if that is known."""
        watch, fleet = self._watch, self._watch.fleet()
        if fleet is not self._fleet or len(self._kept) >= _KEPT:
            self._fleet = fleet
            self._kept.clear()
        beside = (*_queued(watch, job), ends)
        kept = self._kept.get(job.id)
        if kept is not None and kept[0] is job and kept[1] == beside:
            return kept[2]
        made = views.encode(views.job_view(job, fleet, *beside))
        self._kept[job.id] = (job, beside, made)
        return made
