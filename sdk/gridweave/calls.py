"""One call of a function on the cluster: pack it, submit it, watch it, fetch its outcome.

Ctrl-C while it is watched cancels the job and raises KeyboardInterrupt, also if it comes while the submit is on its way
(the submit is repeated under its own idempotency key, which tells the job's id). A second Ctrl-C stops waiting for that.
A log that cannot be written (its reader has gone, the disk is full) ends it in the same way: nobody would see the rest.
Whoever is made to leave by another signal (`Left`) leaves a job that he knows running.
"""

from __future__ import annotations

import contextlib
import sys
from typing import IO, Any

from gridweave.asides import say
from gridweave.client import Client
from gridweave.decorated import Decorated
from gridweave.errors import GridweaveError
from gridweave.jobs import TERMINAL, Job, wait
from gridweave.notices import Notices
from gridweave.parcels import LAST_TRY, Parcel
from gridweave.progress import Screen
from gridweave.streams import LogPiece, State

_MOMENT = 2  # seconds
_NOTHING = "nothing was submitted"


class Left(KeyboardInterrupt):
    """Whoever watches has to leave, by a signal other than Ctrl-C's. number: of that signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def spawn(
    client: Client,
    function: Decorated[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    key: str | None = None,
    screen: Screen | None = None,
) -> Job:
    """Submit one call; screen: which shows packing and uploads, one of its own if None. KeyboardInterrupt then says what became of it."""
    with contextlib.ExitStack() as stack:
        shown = screen or stack.enter_context(contextlib.closing(Screen(function.options.name or function.__name__)))
        return _sent(client, function, args, kwargs, key, shown)


def _sent(
    client: Client, function: Decorated[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None, screen: Screen
) -> Job:
    try:
        with contextlib.closing(Parcel(function, screen.packing)) as parcel:
            letter = parcel.letter(args, kwargs)
            letter.key = key or letter.key
            return letter.send_once(client, screen.uploading)
    except KeyboardInterrupt as interrupt:
        interrupt.args = interrupt.args or (_NOTHING,)
        raise interrupt.with_traceback(None) from None  # without the frames of what was waited for


def call(client: Client, function: Decorated[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Submit one call, show it, and give its value."""
    try:
        with Screen(function.options.name or function.__name__) as screen:
            job = spawn(client, function, args, kwargs, screen=screen)
            watch(client, job, screen)
        return wait(client, job.id, log_shown=True)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*interrupt.args) from None  # without the frames of what was waited for


def watch(client: Client, job: Job, screen: Screen) -> None:
    """Show a job until it has ended; where there is no line to draw, also say that it waits.

    KeyboardInterrupt, and OSError of a log that cannot be written, cancel it first.
    """
    phase = ""
    try:
        with Notices(job.id) as notices:
            for happened in client.follow(job.id):
                if isinstance(happened, LogPiece):
                    screen.log(happened.data)
                elif isinstance(happened, State):
                    placed = happened.phase != phase and happened.phase in ("Allocated", "Running")
                    screen.state(happened, client.status(job.id) if placed and screen.shown else None)
                    if not screen.shown:
                        notices.state(happened)
                    phase = happened.phase
    except Left:
        raise
    except (KeyboardInterrupt, OSError) as error:
        screen.close()
        if isinstance(error, KeyboardInterrupt) or not _ended_soon(client, job):
            abandon(client, job, sys.stderr)
        raise


def _ended_soon(client: Client, job: Job) -> bool:
    """Whether it ends by itself in a moment: then it is not cancelled for what was only the end of its log."""
    with contextlib.suppress(GridweaveError):
        result = client.result(job.id, _MOMENT)
        if result is not None:
            result.close()
    with contextlib.suppress(GridweaveError):
        return client.status(job.id).get("phase") in TERMINAL
    return False


def abandon(client: Client, job: Job, say_to: IO[str]) -> None:
    """Cancel a job that nobody waits for any more, and say so."""
    try:
        client.cancel(job.id, retry_for=LAST_TRY)
        said = f"cancelling job {job.id}"
    except (GridweaveError, KeyboardInterrupt) as error:
        said = f"job {job.id} may still be running: {error or 'interrupted'}; cancel it with: gridweave cancel {job.id}"
    say(said, say_to)
