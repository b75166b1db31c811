"""Calls from asyncio: the blocking work is done in threads, and cancelling the task cancels the job."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Any

from gridweave.calls import abandon, watch
from gridweave.client import Client
from gridweave.decorated import Decorated
from gridweave.errors import GridweaveError
from gridweave.jobs import Job, wait
from gridweave.parcels import LAST_TRY, Parcel
from gridweave.progress import Screen
from gridweave.waiting import outcome, start


async def spawn_async(client: Client, function: Decorated[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
    """spawn, in a thread; a cancelled task leaves no job."""
    with contextlib.closing(Parcel(function)) as parcel:
        letter = parcel.letter(args, kwargs)
        sending = start(lambda: letter.send_once(client))
        try:
            return await outcome(sending)
        except asyncio.CancelledError:
            await settled(lambda: abandon(client, sending.result(), sys.stderr))
            raise


async def call_async(client: Client, function: Decorated[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """call, in a thread, without a progress line; cancelling the task cancels the job."""
    job = await spawn_async(client, function, args, kwargs)

    def watch_and_fetch() -> Any:
        with Screen(function.__name__, line=False) as screen:
            watch(client, job, screen)
        return wait(client, job.id, log_shown=True)

    try:
        return await outcome(start(watch_and_fetch))
    except asyncio.CancelledError:
        await settled(lambda: abandon(client, job, sys.stderr))
        raise


async def settled(work: Callable[[], None]) -> None:
    """Give work in a thread LAST_TRY seconds; a submit that failed leaves nothing to cancel."""

    def quietly() -> None:
        with contextlib.suppress(GridweaveError):
            work()

    await asyncio.wait({asyncio.wrap_future(start(quietly))}, timeout=LAST_TRY)
