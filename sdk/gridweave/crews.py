"""Threads that carry many calls of one function at once, each from submit to result.

Where the credits do not suffice for as many holds, the crew shrinks itself: a call that was refused waits until another of
the crew has ended and given its hold back. Only when none is in flight is it really too dear.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gridweave.client import Client
from gridweave.errors import Cancelled, GridweaveError
from gridweave.jobs import Job
from gridweave.parcels import Letter, short_of_credits
from gridweave.progress import in_mib

_GRACE = 10.0  # seconds after a job's end within which its hold may still be open
_PAUSE = 0.5


class Crew:
    """size: calls in flight at most. Leaving cancels every job that has not ended."""

    def __init__(self, client: Client, size: int) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="gridweave")
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._left = False
        self._size = self._room = size  # room: how many the credits sufficed for, as far as is known
        self._sending = 0
        self._ended_at: float | None = None
        self._jobs: set[Job] = set()
        self._unsent: set[Letter] = set()
        self.uploading = ""  # in words

    @property
    def in_flight(self) -> int:
        """Jobs that were submitted and have not ended."""
        return len(self._jobs)

    @property
    def short(self) -> bool:
        """Whether credits keep it from having more in flight."""
        return self._room < self._size

    def start(self, letter: Letter) -> Future[Any]:
        """Carry this call when there is room for it."""
        with self._lock:
            self._unsent.add(letter)
        return self._pool.submit(self._carry, letter)

    def _carry(self, letter: Letter) -> Any:
        job = self._submitted(letter)
        if job is None:
            return None
        try:
            return job.result()
        finally:
            with self._changed:
                self._jobs.discard(job)
                self._ended_at = time.monotonic()
                self._changed.notify_all()

    def _submitted(self, letter: Letter) -> Job | None:
        """Its job, once it could be paid for; None if nobody waits for it any more."""
        while self._admitted(letter):
            job = None
            try:
                job = letter.send(self._client, self._upload)
            except GridweaveError as error:
                if not short_of_credits(error):
                    raise
                if not self._may_wait():
                    letter.close()
                    raise
            finally:
                self._sent(letter, job)
            if job is not None:
                return job
        letter.close()
        return None

    def _admitted(self, letter: Letter) -> bool:
        """Wait for room. False when the crew is being left."""
        with self._changed:
            while not self._left and len(self._jobs) + self._sending >= self._room:
                self._changed.wait()
            if not self._left:
                self._unsent.discard(letter)
                self._sending += 1
            return not self._left

    def _sent(self, letter: Letter, job: Job | None) -> None:
        with self._changed:
            self._sending -= 1
            if job is not None:
                self._jobs.add(job)
                self._room = min(self._size, self._room + 1)
            self._changed.notify_all()

    def _upload(self, so_far: int, total: int) -> None:
        if self._left:
            raise Cancelled("Nobody waits for it any more.")  # breaks the upload off
        self.uploading = in_mib("uploading", so_far, total)

    def _may_wait(self) -> bool:
        """After a refusal for want of credits: whether some may come back. Makes the crew smaller."""
        with self._changed:
            others = len(self._jobs) + self._sending - 1
            self._room = max(1, others)
            if others or self._left:
                return True
            if self._ended_at is None or time.monotonic() - self._ended_at > _GRACE:
                return False
        time.sleep(_PAUSE)
        return True

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Start nothing more, and cancel what has not ended."""
        with self._changed:
            self._left = True
            self._changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            while self._sending:
                self._changed.wait()
            left, unsent = list(self._jobs), list(self._unsent)
        for letter in unsent:
            letter.close()
        for job in left:
            with contextlib.suppress(GridweaveError):
                job.cancel()
