"""`submit` without --detach: a job is followed from its submit to its outcome and its receipt.

Ctrl-C, and a reader of the log that goes away, cancel it. SIGTERM and SIGHUP, by which a batch system or a closed terminal ends
this command, do not: where it is known by then it goes on, and what is said last is how to find it again.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from gridweave.calls import Left, spawn, watch
from gridweave.client import Client
from gridweave.commands.outcomes import show_outcome
from gridweave.commands.output import Output, Stopped, unheard
from gridweave.functions import Function
from gridweave.jobs import Job
from gridweave.limits import job_name
from gridweave.progress import Screen, place


def follow(
    client: Client, output: Output, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None
) -> int:
    """Submit one call, show its log and its outcome; gives the exit code. Raises Stopped by SIGTERM or SIGHUP."""
    job, ended = None, False
    try:
        with _signals_raise():
            with Screen(function.options.name or job_name(function.__name__), log_to=sys.stderr if output.json else None) as screen:
                job = spawn(client, function, args, kwargs, key, screen)
                _watch(client, job, screen)
            ended = True
            return _outcome(client, output, job, screen.tail)
    except Left as left:
        raise _stopped(left, job.id if job is not None else "", ended) from None


def _watch(client: Client, job: Job, screen: Screen) -> None:
    """Raises Unheard if its log cannot be written, and it was cancelled for that."""
    try:
        watch(client, job, screen)
    except OSError as error:
        if client.status(job.id).get("phase") not in ("Completed", "Failed"):
            raise unheard(error, f"Job {job.id} is cancelled") from error


def _outcome(client: Client, output: Output, job: Job, log: str) -> int:
    try:
        return show_outcome(client, output, job, log=log)
    finally:
        if not output.json:
            with contextlib.suppress(BrokenPipeError):
                print(_receipt(client.status(job.id)), file=sys.stderr, flush=True)


def _receipt(status: Mapping[str, Any]) -> str:
    """Where a job ran, for how long, and what it cost."""
    ran = f"{status['ran_ms'] / 1000:.3f} s" if status.get("ran_ms") else "not at all"
    where = f" on {found}" if (found := place(status.get("placement") or ())) else ""
    return f"{status['id']} ran {ran}{where}: {status.get('charged') or '0.000000'} credits"


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Left, except where somebody (nohup) has them ignored."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise Left(number)

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stopped(left: Left, job_id: str, ended: bool) -> Stopped:
    by = f"Stopped by {signal.Signals(left.number).name}"
    if not job_id:
        return Stopped(f"{by}: {left}", left.number)
    if ended:
        return Stopped(f"{by}; job {job_id} has ended", left.number, job_id, f"Its outcome: gridweave result {job_id}")
    remedy = f"Follow it: gridweave logs -f {job_id}; wait for its value: gridweave result {job_id}; cancel it: gridweave cancel {job_id}"
    return Stopped(f"{by}; job {job_id} goes on", left.number, job_id, remedy)
