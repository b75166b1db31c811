"""Whose turn it is: first come, first served, and nobody is overtaken to his cost.

Jobs of one shape (pools, model, vendor, and which sizes of GPU could hold them) wait in one line. When the first of
a line finds no room, what it waits for is closed to everybody behind it: a later job may still be placed, but only on
GPUs that no earlier waiting job could use. So a round looks at one job per line and at those that it places, never at
all that wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

from attrs import evolve, frozen

from core.fleet import GpuClass
from core.owners import Pool, pools
from ports.errors import Refused
from ports.workloads import Ask, Job


@frozen
class Shape:
    """What decides which GPUs a job could use. least: MiB of the smallest kind of GPU that is large enough."""

    pools: tuple[Pool, ...]
    model: str | None
    vendor: str | None
    least: int = 0


@frozen
class Closed:
    """GPUs that an earlier job waits for: those of `pool` with that model and vendor (None: any) and at least `least` MiB."""

    pool: Pool
    model: str | None
    vendor: str | None
    least: int = 0

    def covers(self, gpu: GpuClass) -> bool:
        named = self.model in (None, gpu.model) and self.vendor in (None, gpu.vendor)
        return named and self.pool.has(gpu.owner) and gpu.total.n >= self.least

    def covers_all_of(self, other: Closed) -> bool:
        named = self.model in (None, other.model) and self.vendor in (None, other.vendor)
        return named and _reaches(self.pool, other.pool) and self.least <= other.least


def _reaches(pool: Pool, other: Pool) -> bool:
    """Whether all of `other` is in `pool`."""
    return pool == other or (pool.owners == "providers" and other.owners.startswith("provider:"))


class Turn(Enum):
    """What became of a job's turn."""

    PLACED = "placed"
    WAITS = "waits"  # no room: what it could use is closed to everybody behind it
    ASIDE = "aside"  # no machine that is here could ever hold it: it waits for one, and nobody waits for it


def shape_of(job: Job, sizes: Sequence[int] = ()) -> Shape:
    """sizes: MiB of every kind of GPU there is, ascending."""
    ask = job.spec.ask
    enough = bisect_left(sizes, ask.mib.n)
    least = sizes[enough] if enough < len(sizes) else ask.mib.n
    try:
        wanted = pools(job.spec.user, job.spec.plan, ask.owner)
    except Refused:  # stored by a release with another policy: nothing is open to it
        wanted = ()
    return Shape(wanted, ask.model, ask.vendor, least)


class Queue:
    """All funded jobs that wait, by shape and age."""

    def __init__(self) -> None:
        self._lines: dict[Shape, list[tuple[int, str]]] = {}
        self._jobs: dict[str, tuple[Shape, Job]] = {}
        self._sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def put(self, job: Job) -> None:
        """Add a job, or replace what is known of it; its place stays."""
        known = self._jobs.get(job.id)
        shape = known[0] if known is not None else shape_of(job, self._sizes)
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

    def round(self, place: Callable[[Job, tuple[Pool, ...], tuple[Closed, ...]], Turn], classes: Iterable[GpuClass]) -> None:
        """Offer each job its turn, oldest first: `place(job, pools, closed)`. Placed jobs leave the queue.

        `place` must take only GPUs that `closed` does not cover. classes: every kind of GPU there is now.
        """
        self._fit(tuple(sorted({each.total.n for each in classes})))
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
                closed += [Closed(pool, shape.model, shape.vendor, shape.least) for pool in open_pools]
            if turn is Turn.WAITS or heads[shape] >= len(self._lines.get(shape, ())):
                del heads[shape]

    def _fit(self, sizes: tuple[int, ...]) -> None:
        """Form the lines anew where other sizes of GPU have come or gone."""
        if sizes == self._sizes:
            return
        waiting = [job for _, job in self._jobs.values()]
        self._lines, self._jobs, self._sizes = {}, {}, sizes
        for job in waiting:
            self.put(job)

    def jobs(self) -> Iterator[Job]:
        """All that wait, in no order."""
        for _, job in self._jobs.values():
            yield job


def _open(shape: Shape, closed: list[Closed]) -> Iterator[Pool]:
    """The shape's pools that are not wholly waited for by earlier jobs."""
    for pool in shape.pools:
        wanted = Closed(pool, shape.model, shape.vendor, shape.least)
        if not any(each.covers_all_of(wanted) for each in closed):
            yield pool


def narrowed(ask: Ask, pool: Pool, closed: tuple[Closed, ...], classes: tuple[GpuClass, ...]) -> Iterator[Ask]:
    """The ask as it may be offered to that pool: as it is, or one GPU class at a time where earlier jobs wait for some."""
    wanted = Closed(pool, ask.model, ask.vendor, ask.mib.n)
    mine = [each for each in classes if wanted.covers(each)]
    shut = {(each.model, each.vendor) for each in mine if any(wait.covers(each) for wait in closed)}
    if not shut:
        yield ask
        return
    for model, vendor in sorted({(each.model, each.vendor) for each in mine} - shut):
        yield evolve(ask, model=model, vendor=vendor)
