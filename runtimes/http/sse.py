"""A job followed as server-sent events: its log in pieces, its state on change, and its end.

Every log event's id is the byte offset after it, so a client that comes back with `Last-Event-ID` misses nothing
and gets nothing twice. A piece never ends inside a character, unless the log itself does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from attrs import field, frozen
from falcon.asgi import SSEvent

from core.waiting import waiting
from ports.errors import Unavailable
from ports.workloads import TERMINAL, Job, Phase
from runtimes.http.bodies import views
from runtimes.http.followers import Feed, Feeds, ReadJob
from runtimes.http.services import Services
from runtimes.http.watch import Signal

PING_S = 15.0
_POSITION_S = 1.0  # how often a waiting job's position is looked at
_LONGEST = 4  # bytes of a character


class Splitter:
    """Cuts a stream of bytes into texts and, where it is no UTF-8, bytes. Keeps back a character that is not whole yet."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes, last: bool) -> list[tuple[dict[str, str], int]]:
        """Payloads with the number of log bytes of each. last: nothing follows, so nothing is kept back."""
        data, self._held = self._held + data, b""
        if not last:
            whole = len(data) - _unfinished(data)
            data, self._held = data[:whole], data[whole:]
        try:
            text, bad = data.decode("utf-8"), b""
        except UnicodeDecodeError as error:
            text, bad = data[: error.start].decode("utf-8"), data[error.start :]
        found: list[tuple[dict[str, str], int]] = []
        if text:
            found.append(({"text": text}, len(data) - len(bad)))
        if bad:
            found.append(({"base64": base64.b64encode(bad).decode()}, len(bad)))
        return found


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a character whose rest may still come."""
    for back in range(1, min(_LONGEST, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF8 else 0
            return back if wanted > back else 0
        if byte < 0x80:
            return 0
    return 0


@frozen
class Follower:
    """One client's stream. offset: where it begins."""

    services: Services
    feeds: Feeds
    job: Job
    offset: int
    read: ReadJob
    ping_s: float = field(default=PING_S)

    async def events(self) -> AsyncIterator[SSEvent]:
        """Ends with the job, or when the gateway stops; then the client comes back with its id."""
        with self.feeds.open(self.job, self.offset) as feed, self.services.watch.changes_of(self.job.id) as signal:
            waiter = _Waiter(feed, signal)
            try:
                async for event in self._run(feed, waiter):
                    yield event
            finally:
                waiter.close()

    async def _run(self, feed: Feed, waiter: _Waiter) -> AsyncIterator[SSEvent]:
        job, splitter = self.job, Splitter()
        told: dict[str, Any] = {}
        offset = sent = self.offset
        quiet_since = _now()
        while not self.services.stopping.is_set():
            state = self._state(job)
            if state != told:
                told, quiet_since = state, _now()
                yield SSEvent(event="state", json=state)
            if feed.ready(offset):
                piece = await feed.take(offset)
                offset = piece.next
                for payload, size in splitter.feed(piece.data, piece.complete):
                    sent, quiet_since = sent + size, _now()
                    yield SSEvent(event="log", event_id=str(sent), json=payload)
                if piece.complete and job.status.phase in TERMINAL:
                    yield SSEvent(event="end", event_id=str(sent), json={"phase": job.status.phase.value, "reason": job.status.reason})
                    return
                if piece.data:
                    continue
            pause = _POSITION_S if job.status.phase is Phase.PENDING else self.ping_s
            changed = await waiter.wait(min(pause, self.ping_s), log=not feed.ready(offset))
            if changed or _now() - quiet_since >= self.ping_s:
                job = await self._reread(feed, job, waiter.changed_at if changed else _now())
            if _now() - quiet_since >= self.ping_s:
                quiet_since = _now()
                yield SSEvent(comment="ping")

    def _state(self, job: Job) -> dict[str, Any]:
        pending = job.status.phase is Phase.PENDING
        position = (self.services.watch.position(job.id) or job.status.position) if pending else 0
        return {
            "phase": job.status.phase.value,
            "waiting": self._waiting(job) if pending else "",
            "position": position,
            "setup": views.setup(job),
        }

    def _waiting(self, job: Job) -> str:
        watch = self.services.watch
        try:
            return waiting(job, watch.fleet(), watch.ahead(job.id))
        except Unavailable:  # nothing was read yet
            return job.status.waiting

    async def _reread(self, feed: Feed, job: Job, since: float) -> Job:
        with contextlib.suppress(Exception):  # the store may be away for a while: what was known stays
            return await feed.refresh(self.read, since)
        return job


class _Waiter:
    """Waits for more log, a change of the job, or time; keeps its one task between waits."""

    def __init__(self, feed: Feed, signal: Signal) -> None:
        self._feed, self._signal = feed, signal
        self._change: asyncio.Task[None] | None = None

    @property
    def changed_at(self) -> float:
        return self._signal.at

    async def wait(self, timeout_s: float, log: bool) -> bool:
        """Whether the job has changed."""
        if self._change is None:
            self._change = asyncio.ensure_future(self._signal.wait(3600.0))
        waited: set[asyncio.Task[None]] = {self._change}
        if log:
            waited.add(self._feed.more())
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not self._change.done():
            return False
        self._change = None
        return True

    def close(self) -> None:
        if self._change is not None:
            self._change.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
