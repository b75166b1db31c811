"""One upstream per followed log, whatever the number of followers.

A feed reads on only while a follower waits at its head, so nobody's slowness costs anybody memory: a follower
that has fallen behind the kept bytes reads for itself until he has caught up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from ports.errors import Refused, Unavailable
from ports.units import Span
from ports.workloads import Job
from runtimes.http.logs import JobLogs, Piece
from runtimes.http.services import Services

log = structlog.get_logger("gridweave.follow")

KEPT = 1024 * 1024  # bytes behind the head
LIMIT = 128 * 1024  # bytes of one piece
_WAIT = Span.of(seconds=10)
_PAUSE_S = 1.0  # between reads of a log that has nothing new and can't be waited for

ReadJob = Callable[[], Awaitable[Job]]


class Feed:
    """The log of one job, as all its followers in this process see it."""

    def __init__(self, logs: JobLogs, job: Job, offset: int) -> None:
        self.job = job
        self._logs = logs
        self._base, self._kept, self._complete = offset, bytearray(), False
        self._pull: asyncio.Task[None] | None = None
        self._reading, self._changed = asyncio.Lock(), asyncio.Event()
        self._read_at = 0.0
        self.followers = 0
        self.upstream_reads = 0

    @property
    def head(self) -> int:
        return self._base + len(self._kept)

    def ready(self, offset: int) -> bool:
        """Whether `take` would give something without waiting."""
        return self._complete or offset < self.head or offset > self.head + KEPT

    async def take(self, offset: int) -> Piece:
        """What is there from `offset` on. Raises Unavailable."""
        if offset < self._base or offset > self.head + KEPT:
            return await self._logs.read(self.job, offset, LIMIT)
        at = offset - self._base
        data = bytes(self._kept[at : at + LIMIT])
        return Piece(data, offset + len(data), self._complete and offset + len(data) >= self.head)

    def more(self) -> asyncio.Task[None]:
        """The one read beyond the head that is going on; all that wait share it."""
        if self._pull is None or self._pull.done():
            self._pull = asyncio.ensure_future(self._read_on())
        return self._pull

    async def refresh(self, read: ReadJob, since: float) -> Job:
        """The job as stored at or after the loop time `since`; followers who ask at once share one read."""
        async with self._reading:
            if self._read_at < since:
                begun, attempt = asyncio.get_running_loop().time(), self.job.status.attempt
                self.job, self._read_at = await read(), begun
                self._complete = self._complete and self.job.status.attempt == attempt
                self._changed.set()
        return self.job

    async def _read_on(self) -> None:
        began = asyncio.get_running_loop().time()
        self.upstream_reads += 1
        try:
            piece = await self._logs.read(self.job, self.head, LIMIT, _WAIT)
        except (Unavailable, Refused) as error:
            log.warning("log can't be read now", job=self.job.id, why=str(error))
            await self._pause()
            return
        self._kept += piece.data
        self._complete = piece.complete
        if len(self._kept) > 2 * KEPT:
            self._base += len(self._kept) - KEPT
            del self._kept[: len(self._kept) - KEPT]
        if not piece.data and not piece.complete and asyncio.get_running_loop().time() - began < _PAUSE_S:
            await self._pause()

    async def _pause(self) -> None:
        """A while, or until the job has changed: it may have been placed just now."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _PAUSE_S)


class Feeds:
    """The feeds of this process, each for as long as somebody follows it."""

    def __init__(self, services: Services) -> None:
        self._logs = JobLogs(services)
        self._feeds: dict[str, Feed] = {}

    @property
    def logs(self) -> JobLogs:
        return self._logs

    def __len__(self) -> int:
        return len(self._feeds)

    @contextmanager
    def open(self, job: Job, offset: int) -> Iterator[Feed]:
        feed = self._feeds.setdefault(job.id, Feed(self._logs, job, offset))
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                self._feeds.pop(job.id, None)
