"""What is sent for a call: the function packed once, and the arguments of each call."""

from __future__ import annotations

import contextlib
import platform
import threading
import uuid
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from gridweave.bundles import code_bundle, folder_bundle
from gridweave.client import Client
from gridweave.decorated import Decorated
from gridweave.errors import GridweaveError, Refused
from gridweave.jobs import Job
from gridweave.limits import job_name
from gridweave.payloads import Payload, Progress
from gridweave.pickling import Needs, pickle_arguments, pickle_function
from gridweave.signatures import check_call, signature_of

LAST_TRY = 5  # seconds for what is still said to the gateway after Ctrl-C


class Parcel:
    """A function packed once, to be sent with any number of arguments. Close it at the end. packing: told how far its folder is."""

    def __init__(self, function: Decorated[..., Any], packing: Progress | None = None) -> None:
        self.options = function.options
        self.name = function.options.name or job_name(function.__name__)
        self._called, self._signature = function.__qualname__.rpartition("<locals>.")[2], signature_of(function.__wrapped__)
        self._needs = Needs()
        self._function = pickle_function(function.__wrapped__, self._needs)
        folder = function.options.env.get("working_dir")
        self._folder: Payload | None = None
        self._codes: dict[frozenset[str], Payload | None] = {}
        self._carried: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        try:
            self._folder = folder_bundle(str(folder), packing) if folder is not None else None
        except BaseException:
            self.close()
            raise

    def letter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Letter:
        """The parcel with these arguments, as they are now. Raises Refused if the function does not take them, or if they,
        or the code, cannot travel."""
        check_call(self._called, self._signature, args, kwargs)
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

    def body(self, client: Client, arguments: Payload, code: Payload | None, progress: Progress | None = None) -> dict[str, Any]:
        """The request; uploads what is not small. What all letters share is uploaded once."""
        with self._lock:
            function = self._carry(client, self._function, progress)
            shared = {"function": function, "code": self._carry(client, code, progress) if code else None}
            environment = self.options.environment()
            if self._folder is not None:
                environment["working_dir"] = self._carry(client, self._folder, progress, inline=False)
        return {
            **shared,
            "args": client.carry(arguments, progress),
            "name": self.name,
            **self.options.ask(),
            "env": environment,
            "max_hours": self.options.max_hours,
            **({} if self.options.max_cost is None else {"max_cost": self.options.max_cost}),
            "labels": dict(self.options.labels),
            "client": {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__},
        }

    def _carry(self, client: Client, payload: Payload, progress: Progress | None, inline: bool = True) -> dict[str, Any]:
        if id(payload) not in self._carried:
            self._carried[id(payload)] = (client.carry if inline else client.upload)(payload, progress)
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

    def send(self, client: Client, progress: Progress | None = None) -> Job:
        """Submit it, and close it unless the credits are short: then it may be sent again. progress: of what has to be uploaded.

        Raises Refused, Unavailable; after KeyboardInterrupt, which says so, no job of it is left.
        """
        try:
            self._body = self._parcel.body(client, self._arguments, self._code, progress)
            job = Job(client.submit(self._body, self.key)["id"], client)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and self._body is not None:
                error.args = (self._recalled(client, self._body),)
            if not short_of_credits(error):
                self.close()
            raise
        self.close()
        return job

    def send_once(self, client: Client, progress: Progress | None = None) -> Job:
        """send, and close it whatever comes."""
        with contextlib.closing(self):
            return self.send(client, progress)

    def close(self) -> None:
        self._arguments.close()

    def _recalled(self, client: Client, body: dict[str, Any]) -> str:
        """What became of a submit that may have been heard, in words. The same key tells the job's id."""
        try:
            answer = client.submit(body, self.key, retry_for=LAST_TRY)
            client.cancel(answer["id"], retry_for=LAST_TRY)
        except (GridweaveError, KeyboardInterrupt) as error:
            return f"a job may have been submitted ({error or 'interrupted'}); look for it with: gridweave ps"
        return f"cancelling job {answer['id']}"


def short_of_credits(error: BaseException) -> bool:
    """Whether a submit was refused for want of credits that other jobs may give back."""
    return isinstance(error, Refused) and error.kind == "cannot-afford"
