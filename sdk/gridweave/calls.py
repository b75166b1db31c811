"""One call of a function on the cluster: pack it, submit it, watch it, fetch its outcome.

Ctrl-C while it is watched cancels the job and raises KeyboardInterrupt, also if it comes while the submit is on its way
(the submit is repeated under its own idempotency key, which tells the job's id). A second Ctrl-C stops waiting for that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import platform
import sys
import threading
import uuid
from collections.abc import Callable
from typing import IO, Any, TypeVar

import cloudpickle  # type: ignore[import-untyped]

from gridweave.bundles import code_bundle, folder_bundle
from gridweave.client import Client
from gridweave.errors import GridweaveError, RemoteError
from gridweave.functions import Function
from gridweave.jobs import Job
from gridweave.options import job_name
from gridweave.payloads import Payload
from gridweave.pickling import Needs, pickle_arguments, pickle_function
from gridweave.progress import Screen
from gridweave.streams import LogPiece, State

T = TypeVar("T")
_LAST_TRY = 5  # seconds for what is still said to the gateway after Ctrl-C


class Parcel:
    """A function packed once, to be sent with any number of arguments. Close it at the end."""

    def __init__(self, function: Function[..., Any]) -> None:
        self.options = function.options
        self.name = function.options.name or job_name(function.__name__)
        self._needs = Needs()
        self._function = pickle_function(function.__wrapped__, self._needs)
        folder = function.options.env.get("working_dir")
        self._folder: Payload | None = None
        self._codes: dict[frozenset[str], Payload | None] = {}
        self._carried: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        try:
            self._folder = folder_bundle(str(folder)) if folder is not None else None
        except BaseException:
            self.close()
            raise

    def letter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Letter:
        """The parcel with these arguments, as they are now. Raises Refused if they, or the code, cannot travel."""
        needs = Needs(set(self._needs.modules))
        arguments = pickle_arguments(args, kwargs, needs)
        modules = frozenset(needs.modules)
        try:
            with self._lock:
                if modules not in self._codes:
                    self._codes[modules] = code_bundle(modules)
        except BaseException:
            arguments.close()
            raise
        return Letter(self, arguments, self._codes[modules])

    def body(self, client: Client, arguments: Payload, code: Payload | None) -> dict[str, Any]:
        """The request; uploads what is not small. What all letters share is uploaded once."""
        with self._lock:
            shared = {"function": self._carry(client, self._function), "code": self._carry(client, code) if code else None}
            environment = self.options.environment()
            if self._folder is not None:
                environment["working_dir"] = self._carry(client, self._folder, inline=False)
        return {
            **shared,
            "args": client.carry(arguments),
            "name": self.name,
            **self.options.ask(),
            "env": environment,
            "max_hours": self.options.max_hours,
            "labels": dict(self.options.labels),
            "client": {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__},
        }

    def _carry(self, client: Client, payload: Payload, inline: bool = True) -> dict[str, Any]:
        if id(payload) not in self._carried:
            self._carried[id(payload)] = client.carry(payload) if inline else client.upload(payload)
        return self._carried[id(payload)]

    def close(self) -> None:
        for payload in (self._function, self._folder, *self._codes.values()):
            if payload is not None:
                payload.close()


class Letter:
    """One call, packed. It knows its idempotency key, so that sending it again sends the same job."""

    def __init__(self, parcel: Parcel, arguments: Payload, code: Payload | None) -> None:
        self._parcel, self._arguments, self._code = parcel, arguments, code
        self.key = uuid.uuid4().hex
        self._body: dict[str, Any] | None = None

    def send(self, client: Client) -> Job:
        """Submit it. Raises Refused, Unavailable; after KeyboardInterrupt no job of it is left."""
        try:
            self._body = self._parcel.body(client, self._arguments, self._code)
            return Job(client.submit(self._body, self.key)["id"], client)
        except KeyboardInterrupt:
            self._recall(client)
            raise
        finally:
            self.close()

    def close(self) -> None:
        self._arguments.close()

    def _recall(self, client: Client) -> None:
        if self._body is None:
            return
        with contextlib.suppress(GridweaveError):
            answer = client.submit(self._body, self.key, retry_for=_LAST_TRY)
            client.cancel(answer["id"], retry_for=_LAST_TRY)


def spawn(client: Client, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], key: str | None = None) -> Job:
    """Submit one call."""
    with contextlib.closing(Parcel(function)) as parcel:
        letter = parcel.letter(args, kwargs)
        letter.key = key or letter.key
        return letter.send(client)


def call(client: Client, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Submit one call, show it, and give its value."""
    with Screen(function.__name__) as screen:
        job = spawn(client, function, args, kwargs)
        watch(client, job, screen)
    return job.result()


def watch(client: Client, job: Job, screen: Screen) -> None:
    """Show a job until it has ended. KeyboardInterrupt cancels it first."""
    phase = ""
    try:
        for happened in client.follow(job.id):
            if isinstance(happened, LogPiece):
                screen.log(happened.data)
            elif isinstance(happened, State):
                placed = happened.phase != phase and happened.phase in ("Allocated", "Running")
                screen.state(happened, client.status(job.id) if placed and screen.shown else None)
                phase = happened.phase
    except KeyboardInterrupt:
        abandon(client, job, sys.stderr)
        raise


def abandon(client: Client, job: Job, say_to: IO[str]) -> None:
    """Cancel a job that nobody waits for any more, and say so."""
    try:
        client.cancel(job.id, retry_for=_LAST_TRY)
        print(f"cancelling job {job.id}", file=say_to)
    except (GridweaveError, KeyboardInterrupt) as error:
        print(f"job {job.id} may still be running: {error or 'interrupted'}; cancel it with: gridweave cancel {job.id}", file=say_to)


async def spawn_async(client: Client, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
    """spawn, in a thread; a cancelled task leaves no job."""
    with contextlib.closing(Parcel(function)) as parcel:
        letter = parcel.letter(args, kwargs)
        sending = _start(lambda: letter.send(client))
        try:
            return await _outcome(sending)
        except asyncio.CancelledError:
            await _settled(lambda: abandon(client, sending.result(), sys.stderr))
            raise


async def call_async(client: Client, function: Function[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """call, in a thread, without a progress line; cancelling the task cancels the job."""
    job = await spawn_async(client, function, args, kwargs)

    def watch_and_fetch() -> Any:
        with Screen(function.__name__, line=False) as screen:
            watch(client, job, screen)
        try:
            return job.result()
        except StopIteration as error:  # a future refuses to hold one
            raise RemoteError(f"StopIteration: {error}", type="StopIteration") from error

    try:
        return await _outcome(_start(watch_and_fetch))
    except asyncio.CancelledError:
        await _settled(lambda: abandon(client, job, sys.stderr))
        raise


def _start(work: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Run work in a thread of its own: any number may wait at once."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="gridweave", daemon=True).start()
    return future


async def _outcome(work: concurrent.futures.Future[T]) -> T:
    """What work gives. A cancelled task leaves it running, and asks no more what came of it."""
    wrapped = asyncio.wrap_future(work)
    wrapped.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    return await asyncio.shield(wrapped)


async def _settled(work: Callable[[], None]) -> None:
    """Give work in a thread _LAST_TRY seconds; a submit that failed leaves nothing to cancel."""

    def quietly() -> None:
        with contextlib.suppress(GridweaveError):
            work()

    await asyncio.wait({asyncio.wrap_future(_start(quietly))}, timeout=_LAST_TRY)
