"""The user's process: the only one that ever unpickles what a user sent.

It says that it is warm, waits for one byte, becomes what the user expects (`userland`), calls the function, and sends
the outcome to its supervisor in frames. Then the interpreter ends as any script does: threads are joined, atexit
handlers run, buffers are flushed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types

from gridweave_agent import frames, userland
from gridweave_agent.outcome import Outbox, describe, print_traceback


def run(go: int, out: int) -> object:
    """Run the function of the run that is named on `go`; returns what to exit with, as `sys.exit` takes it."""
    with open(go, "rb", buffering=0) as line:
        path = line.readline()
        if not path.endswith(b"\n"):
            os._exit(0)  # there will be none
        with open(path[:-1], "rb") as file:
            launch: dict[str, object] = json.loads(file.read())
        frames.write_frame(out, frames.READY)
        if line.read(1) != b"g":
            os._exit(0)  # the supervisor is gone
    outbox = Outbox(out, int(str(launch["result_cap_bytes"])), str(launch["name"]))
    pid = os.getpid()
    try:
        userland.enter(launch)
        value = _call(launch)
        if os.getpid() != pid:
            return 0  # a child that the function forked and that came back up here: not the run
        outbox.send_value(value)
    except SystemExit as error:
        if os.getpid() == pid and error.code in (None, 0):
            outbox.send_value(None)  # as a script that ends by sys.exit(0) has done well
        return error.code
    except BaseException as error:
        print_traceback(error)
        if os.getpid() == pid:
            outbox.send_exception(*describe(error))
        return 1
    return 0


def _call(launch: Mapping[str, object]) -> object:
    function: Any = _load(str(launch["function"]))
    arguments: Any = _load(str(launch["args"]))
    args, kwargs = arguments
    userland.publish(function)
    value: Any = function(*args, **kwargs)
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    if inspect.isasyncgen(value):
        value = asyncio.run(_collect(value))
    if inspect.isgenerator(value):
        value = list(value)
    return value


async def _collect(values: AsyncIterator[object]) -> list[object]:
    return [value async for value in values]


def _load(path: str) -> object:
    with open(path, "rb") as file:
        return cloudpickle.load(file)
