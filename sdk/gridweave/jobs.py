"""A handle of a submitted job."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator
from typing import Any

from gridweave.client import Client
from gridweave.downloads import Download
from gridweave.errors import Refused, WrongArguments
from gridweave.outcomes import failure, value_of
from gridweave.streams import LogPiece
from gridweave.waiting import TwoWay, TwoWayIterator

_WAIT = 60  # seconds of one question for the result
TERMINAL = frozenset({"Completed", "Failed", "Cancelled"})


class Job:
    """One job. id: as the gateway knows it. It runs whether or not this handle is kept; `Job(id)` makes another.

    Each method has an `.aio`, to be awaited: `await job.result.aio()`, `async for text in job.logs.aio(follow=True)`.
    Every method raises NotFound if there is no such job of the caller, and Unavailable; making a handle of what is no id raises
    WrongArguments.
    """

    def __init__(self, id: str, client: Client | None = None) -> None:
        if not isinstance(id, str) or not id:
            remedy = "Give the whole id, as a job's .id and `gridweave ps` have it."
            raise WrongArguments(f"A job's id is a text, not {id!r:.80}", field="id", value=str(id)[:200], remedy=remedy)
        if client is None:
            from gridweave.defaults import current

            client = current()
        self.id = id
        self._client = client

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    @TwoWay
    def status(self) -> dict[str, Any]:
        """What the gateway knows of it: phase, reason, placement, times, charges, exit."""
        return self._client.status(self.id)

    @TwoWayIterator
    def logs(self, follow: bool = False) -> Iterator[str]:
        """Its log as text, in pieces as they come; bytes that are no UTF-8 are replaced. follow: until the job has ended."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in self.log_bytes(follow):
            text = decoder.decode(piece)
            if text:
                yield text
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest

    @TwoWayIterator
    def log_bytes(self, follow: bool = False) -> Iterator[bytes]:
        """Its log as bytes."""
        if not follow:
            yield from self._client.log(self.id)
            return
        for happened in self._client.follow(self.id):
            if isinstance(happened, LogPiece):
                yield happened.data

    @TwoWay
    def result(self, timeout: float | None = None) -> Any:
        """Its value, once it has ended; raises the exception that its function raised.

        timeout: seconds to wait, None for ever. Raises TimeoutError, JobFailed, Cancelled. Ctrl-C ends the wait, not the job.
        """
        try:
            return wait(self._client, self.id, timeout)
        except KeyboardInterrupt as interrupt:
            interrupt.args = interrupt.args or (f"job {self.id} goes on; its value later: gw.Job({self.id!r}).result()",)
            raise interrupt.with_traceback(None) from None  # without the frames of what was waited for

    @TwoWay
    def cancel(self) -> dict[str, Any]:
        """Ask for its end, and give its status. It is Cancelled when its processes are gone."""
        return self._client.cancel(self.id)


def wait(client: Client, job_id: str, timeout: float | None = None, *, log_shown: bool = False) -> Any:
    """See Job.result. log_shown: the job's log was printed already, so that a failure need not repeat its end."""
    return value_of(ended(client, job_id, timeout, log_shown=log_shown), job_id)


def ended(client: Client, job_id: str, timeout: float | None = None, *, log_shown: bool = False) -> Download:
    """What a job left when it ended: its value or its function's exception. What this raises is never the function's."""
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAIT if until is None else max(0.0, until - time.monotonic())
        try:
            download = client.result(job_id, min(_WAIT, left))
        except Refused as refused:
            if refused.kind == "no-result":
                raise failure(refused, job_id, log_shown) from None
            raise
        if download is not None:
            return download
        if until is not None and time.monotonic() >= until:
            raise TimeoutError(f"job {job_id} has not ended within {timeout} s")
        if until is not None:
            time.sleep(min(0.2, max(0.0, until - time.monotonic())))
