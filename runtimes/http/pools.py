"""Blocking calls in threads, with a bounded pool and a deadline per dependency.

When one dependency hangs, its pool fills and answers 503; every other one still works. A call that has begun
can't be taken back: its thread keeps its place in the pool until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from ports.errors import Unavailable

T = TypeVar("T")
_QUEUE = 16  # calls that may wait per thread of the pool: a burst of submits is no outage


class Pool:
    """Threads for one dependency. deadline_s: for waiting and call together. clock-free: the loop's own time."""

    def __init__(self, name: str, size: int, deadline_s: float) -> None:
        self.name = name
        self.deadline_s = deadline_s
        self._limiter = CapacityLimiter(size)
        self._waiting_most = size * _QUEUE
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, call: Callable[..., T], *args: Any, deadline_s: float | None = None) -> T:
        """The call's own result or error; Unavailable if the pool is full or the deadline passes."""
        if self._limiter.statistics().tasks_waiting >= self._waiting_most:
            raise Unavailable(self.name, "too many requests wait for it already", 2)
        begun = False

        def mark_and_call() -> T:
            nonlocal begun
            begun = True
            return call(*args)

        task = self._keep(anyio.to_thread.run_sync(mark_and_call, limiter=self._limiter))
        try:
            return await asyncio.wait_for(asyncio.shield(task), deadline_s or self.deadline_s)
        except TimeoutError:
            if task.done():
                return task.result()
            raise Unavailable(self.name, f"no answer within {deadline_s or self.deadline_s:g} s") from None
        finally:
            if not begun:
                task.cancel()

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        return task

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: nobody else may be waiting for it any more


class Pools:
    """store: reads of workloads and records. writes: use cases that touch several ports. uploads: threads that wait for their clients,
    so they have a pool of their own. searches: what takes a processor's time, not a dependency's. The others by their port."""

    def __init__(self) -> None:
        self.store = Pool("the workload store", 12, 10)
        self.writes = Pool("the submit service", 12, 60)
        self.blobs = Pool("the blob store", 12, 30)
        self.uploads = Pool("the upload service", 16, 3600)
        self.credits = Pool("the credit service", 6, 10)
        self.searches = Pool("the search for moves", 1, 60)
