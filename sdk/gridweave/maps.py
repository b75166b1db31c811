"""Many calls of one function at once, their results in order."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gridweave.calls import Letter, Parcel
from gridweave.client import Client
from gridweave.defaults import current
from gridweave.errors import GridweaveError, Refused
from gridweave.functions import Function
from gridweave.jobs import Job

_AHEAD = 4  # calls packed or done but not yet taken, per call in flight


def run_map(function: Function[..., Any], items: Iterable[tuple[Any, ...]], concurrency: int) -> Iterator[Any]:
    """See Function.map. Items are taken, and packed, in the caller's thread; endless iterables are welcome."""
    if concurrency < 1:
        raise Refused(f"concurrency is {concurrency}", field="concurrency", value=str(concurrency), remedy="Give 1 or more.")
    return _results(current(), function, iter(items), concurrency)


def _results(client: Client, function: Function[..., Any], items: Iterator[tuple[Any, ...]], concurrency: int) -> Iterator[Any]:
    with contextlib.closing(Parcel(function)) as parcel, _Crew(client, concurrency) as crew:
        waiting: deque[Future[Any]] = deque()
        more = True
        while more or waiting:
            while more and len(waiting) < concurrency * _AHEAD:
                args = next(items, None)
                more = args is not None
                if args is not None:
                    waiting.append(crew.start(parcel.letter(args, {})))
                if waiting and waiting[0].done():
                    break
            if waiting:
                yield waiting.popleft().result()


class _Crew:
    """Threads that each carry one call from submit to result. Leaving cancels every job that has not ended."""

    def __init__(self, client: Client, size: int) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="gridweave")
        self._lock = threading.Lock()
        self._left = False
        self._sending = 0
        self._quiet = threading.Condition(self._lock)
        self._jobs: set[Job] = set()
        self._unsent: set[Letter] = set()

    def start(self, letter: Letter) -> Future[Any]:
        with self._lock:
            self._unsent.add(letter)
        return self._pool.submit(self._carry, letter)

    def _carry(self, letter: Letter) -> Any:
        with self._lock:
            if self._left:
                return None
            self._unsent.discard(letter)
            self._sending += 1
        job = None
        try:
            job = letter.send(self._client)
        finally:
            with self._lock:
                self._sending -= 1
                if job is not None:
                    self._jobs.add(job)
                self._quiet.notify_all()
        try:
            return job.result()
        finally:
            with self._lock:
                self._jobs.discard(job)

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._left = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            while self._sending:
                self._quiet.wait()
            left, unsent = list(self._jobs), list(self._unsent)
        for letter in unsent:
            letter.close()
        for job in left:
            with contextlib.suppress(GridweaveError):
                job.cancel()
