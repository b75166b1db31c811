"""Blocking calls in threads, with a bounded pool and a deadline per dependency.

When one dependency hangs, its pool fills and answers 503; every other one still works. A call that has begun
can't be taken back: its thread keeps its place in the pool until it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ports.errors import Unavailable
from runtimes.http.one_processor import go_anywhere

T = TypeVar("T")
_QUEUE = 16  # calls that may wait per thread of the pool: a burst of submits is no outage


def _nothing() -> None:
    return


class Pool:
    """Threads for one dependency. deadline_s: for waiting and call together. begin: done in each thread at first.

    waiting: calls that have not begun. busy: that have, and have not ended. hung: of these, that nobody waits for any more.
    """

    def __init__(self, name: str, size: int, deadline_s: float, begin: Callable[[], None] = _nothing) -> None:
        self.name = name
        self.deadline_s = deadline_s
        self.waiting = self.busy = self.hung = 0
        self._size = size
        self._threads = ThreadPoolExecutor(size, name.replace(" ", "-"), begin)
        self._counting = threading.Lock()

    async def run(self, call: Callable[..., T], *args: Any, deadline_s: float | None = None) -> T:
        """The call's own result or error; Unavailable if the pool is full or the deadline passes."""
        if self.waiting >= self._size * _QUEUE:
            raise Unavailable(self.name, "too many requests wait for it already", 2)
        if self.hung >= self._size:
            raise Unavailable(self.name, "none of its earlier calls has been answered", 2)
        self._count(waiting=1)
        begun = self._threads.submit(self._call, call, args)
        begun.add_done_callback(self._left)
        seconds = deadline_s or self.deadline_s
        try:
            async with asyncio.timeout(seconds) as limit:
                return await asyncio.wrap_future(begun)
        except TimeoutError:
            if not limit.expired():
                raise  # the call's own
            raise Unavailable(self.name, f"no answer within {seconds:g} s") from None
        finally:
            if begun.running():
                self._count(hung=1)
                begun.add_done_callback(lambda _: self._count(hung=-1))

    def _call(self, call: Callable[..., T], args: tuple[Any, ...]) -> T:
        self._count(waiting=-1, busy=1)
        try:
            return call(*args)
        finally:
            self._count(busy=-1)

    def _left(self, call: Future[Any]) -> None:
        """Its caller left before it had begun: it is never made."""
        if call.cancelled():
            self._count(waiting=-1)

    def _count(self, waiting: int = 0, busy: int = 0, hung: int = 0) -> None:
        with self._counting:
            self.waiting += waiting
            self.busy += busy
            self.hung += hung


class Pools:
    """store: reads of workloads and records. writes: use cases that touch several ports. uploads: what has arrived of bodies is
    written, and no thread waits for a client; they would be in the way of reads. searches: what takes a processor's time, not a
    dependency's. The others by their port."""

    def __init__(self) -> None:
        self.store = Pool("the workload store", 12, 10)
        self.writes = Pool("the submit service", 12, 60)
        self.blobs = Pool("the blob store", 12, 30, go_anywhere)
        self.uploads = Pool("the upload service", 16, 3600, go_anywhere)
        self.credits = Pool("the credit service", 6, 10)
        self.searches = Pool("the search for moves", 1, 60, go_anywhere)
