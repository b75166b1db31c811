"""Whose turn it is: first come, first served, and nobody is overtaken to his cost.

Jobs of one shape (pools, model, vendor, owner) wait in one line. When the first of a line finds no room, what it
waits for is closed to everybody behind it: a later job may still be placed, but only on GPUs that no earlier
waiting job could use. So a round looks at one job per line and at those that it places, never at all that wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from enum import Enum

from attrs import evolve, frozen

from core.fleet import GpuClass
from core.owners import Pool, pools
from ports.errors import Refused
from ports.workloads import Ask, Job


@frozen
class Shape:
    """What decides which GPUs a job could use, amounts aside."""

    pools: tuple[Pool, ...]
    model: str | None
    vendor: str | None


@frozen
class Closed:
    """GPUs that an earlier job waits for: those of `pool` with that model and vendor (None: any)."""

    pool: Pool
    model: str | None
    vendor: str | None

    def covers(self, owner: str, model: str, vendor: str) -> bool:
        return self.pool.has(owner) and self.model in (None, model) and self.vendor in (None, vendor)

    def covers_all_of(self, other: Closed) -> bool:
        return _reaches(self.pool, other.pool) and self.model in (None, other.model) and self.vendor in (None, other.vendor)


def _reaches(pool: Pool, other: Pool) -> bool:
    """Whether all of `other` is in `pool`."""
    return pool == other or (pool.owners == "providers" and other.owners.startswith("provider:"))


class Turn(Enum):
    """What became of a job's turn."""

    PLACED = "placed"
    WAITS = "waits"  # no room: what it could use is closed to everybody behind it
    ASIDE = "aside"  # no machine that is here could ever hold it: it waits for one, and nobody waits for it


def shape_of(job: Job) -> Shape:
    ask = job.spec.ask
    try:
        wanted = pools(job.spec.user, job.spec.plan, ask.owner)
    except Refused:  # stored by a release with another policy: nothing is open to it
        wanted = ()
    return Shape(wanted, ask.model, ask.vendor)


class Queue:
    """All funded jobs that wait, by shape and age."""

    def __init__(self) -> None:
        self._lines: dict[Shape, list[tuple[int, str]]] = {}
        self._jobs: dict[str, tuple[Shape, Job]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def put(self, job: Job) -> None:
        """Add a job, or replace what is known of it; its place stays."""
        known = self._jobs.get(job.id)
        shape = known[0] if known is not None else shape_of(job)
        if known is None:
            insort(self._lines.setdefault(shape, []), (job.created_at.ms, job.id))
        self._jobs[job.id] = (shape, job)

    def drop(self, job_id: str) -> None:
        known = self._jobs.pop(job_id, None)
        if known is None:
            return
        shape, job = known
        line = self._lines[shape]
        del line[bisect_left(line, (job.created_at.ms, job.id))]
        if not line:
            del self._lines[shape]

    def round(self, place: Callable[[Job, tuple[Pool, ...], tuple[Closed, ...]], Turn]) -> None:
        """Offer each job its turn, oldest first: `place(job, pools, closed)`. Placed jobs leave the queue.

        `place` must take only GPUs that `closed` does not cover.
        """
        closed: list[Closed] = []
        heads = dict.fromkeys(self._lines, 0)
        while heads:
            shape = min(heads, key=lambda each: self._lines[each][heads[each]])
            job = self._jobs[self._lines[shape][heads[shape]][1]][1]
            open_pools = tuple(_open(shape, closed))
            turn = place(job, open_pools, tuple(closed)) if open_pools else Turn.WAITS
            if turn is Turn.PLACED:
                self.drop(job.id)
            elif turn is Turn.ASIDE:
                heads[shape] += 1
            else:
                closed += [Closed(pool, shape.model, shape.vendor) for pool in open_pools]
            if turn is Turn.WAITS or heads[shape] >= len(self._lines.get(shape, ())):
                del heads[shape]

    def jobs(self) -> Iterator[Job]:
        """All that wait, in no order."""
        for _, job in self._jobs.values():
            yield job


def _open(shape: Shape, closed: list[Closed]) -> Iterator[Pool]:
    """The shape's pools that are not wholly waited for by earlier jobs."""
    for pool in shape.pools:
        wanted = Closed(pool, shape.model, shape.vendor)
        if not any(each.covers_all_of(wanted) for each in closed):
            yield pool


def narrowed(ask: Ask, pool: Pool, closed: tuple[Closed, ...], classes: tuple[GpuClass, ...]) -> Iterator[Ask]:
    """The ask as it may be offered to that pool: as it is, or one GPU class at a time where earlier jobs wait for some."""
    mine = [each for each in classes if pool.has(each.owner) and ask.model in (None, each.model) and ask.vendor in (None, each.vendor)]
    shut = {(each.model, each.vendor) for each in mine if any(wait.covers(each.owner, each.model, each.vendor) for wait in closed)}
    if not shut:
        yield ask
        return
    for model, vendor in sorted({(each.model, each.vendor) for each in mine} - shut):
        yield evolve(ask, model=model, vendor=vendor)
