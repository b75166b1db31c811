"""The log of a job by byte offset: from its agent while the agent knows the run, else from the stored chunks.

A job's log is that of its newest attempt; an earlier attempt never got as far as its user's code.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import frozen

from ports.blobs import run_prefix
from ports.errors import NotFound, Unavailable
from ports.units import Span
from ports.workloads import RESULT_STORED, TERMINAL, Job, Run
from runtimes.http.pools import Pool
from runtimes.http.services import Services

_REMEMBERED = 256  # finished logs whose chunk sizes are kept


@frozen
class Piece:
    """data: from the offset asked for. next: the offset after it. complete: nothing will come after it."""

    data: bytes
    next: int
    complete: bool


class JobLogs:
    """One per process. Its reads may be made by any number of requests."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sizes: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    async def read(self, job: Job, offset: int, limit: int, wait: Span = Span(0)) -> Piece:
        """At most `limit` bytes from `offset`; waits for the first one only at a live log. Raises Unavailable."""
        run = job.status.run
        if run is None:
            return Piece(b"", offset, job.status.phase in TERMINAL)
        if not _stored(job):
            live = await self._live(run, offset, limit, wait)
            if live is not None:
                return live
        return await self._from_chunks(job, run, offset, limit)

    async def _live(self, run: Run, offset: int, limit: int, wait: Span) -> Piece | None:
        record = self._services.watch.record(run.placement[0].node)
        if record is None or not record.status.agent:
            return None
        try:
            tail = await self._services.tails.read(record.name, record.status.agent, run.id, offset, limit, wait)
        except Unavailable:
            return None  # what is stored already can still be read
        if tail is None:
            return None
        end = offset + len(tail.data)
        return Piece(tail.data, end, tail.complete and end >= tail.end)

    async def _from_chunks(self, job: Job, run: Run, offset: int, limit: int) -> Piece:
        sizes = await self._chunk_sizes(job, run)
        at, start = 0, 0
        while at < len(sizes) and start + sizes[at] <= offset:
            start += sizes[at]
            at += 1
        to, end = at, start
        while to < len(sizes) and end < offset + limit:
            end += sizes[to]
            to += 1
        keys = [f"{_prefix(run)}{n:09d}" for n in range(at, to)]
        data = await self._services.pools.blobs.run(self._joined, keys, max(0, offset - start), limit) if keys else b""
        end = offset + len(data)
        return Piece(data, end, _stored(job) and end >= sum(sizes))

    async def _chunk_sizes(self, job: Job, run: Run) -> tuple[int, ...]:
        key = f"{job.uid}/{run.id}"  # one made anew under an ended one's name has a log of its own
        if key in self._sizes:
            self._sizes.move_to_end(key)
            return self._sizes[key]
        pool: Pool = self._services.pools.blobs
        sizes = await pool.run(self._list_sizes, _prefix(run))
        if _stored(job):
            self._sizes[key] = sizes
            while len(self._sizes) > _REMEMBERED:
                self._sizes.popitem(last=False)
        return sizes

    def _list_sizes(self, prefix: str) -> tuple[int, ...]:
        """Up to the first chunk that is missing: a later one may arrive before it."""
        found = {info.key.rpartition("/")[2]: info.size for info in self._services.house.blobs.list(prefix)}
        sizes: list[int] = []
        while (size := found.get(f"{len(sizes):09d}")) is not None:
            sizes.append(size)
        return tuple(sizes)

    def _joined(self, keys: list[str], skip: int, limit: int) -> bytes:
        """At most `limit` bytes of these chunks, after the first `skip`."""
        blobs = self._services.house.blobs
        try:
            data = bytearray(b"".join(blobs.get(keys[0], skip, limit)))
            for block in blobs.join(keys[1:]) if len(keys) > 1 else ():
                data += block
                if len(data) >= limit:
                    break
            return bytes(data[:limit])
        except NotFound as error:
            raise NotFound("The log is not kept any more.", "id", "Logs are deleted some time after their job has ended.") from error


def _prefix(run: Run) -> str:
    return f"{run_prefix(run.id.workload, run.id.attempt)}logs/0/"


def _stored(job: Job) -> bool:
    return job.status.holds(RESULT_STORED) or job.status.phase in TERMINAL
