"""`gridweave submit FILE.py:FUNC [ARGS…]`: run one function of a file."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from gridweave.calls import spawn, watch
from gridweave.client import Client
from gridweave.commands.options import COMMON, HARDWARE, Common, Hardware
from gridweave.commands.output import Output, error_facts
from gridweave.commands.scripts import load
from gridweave.errors import GridweaveError, RemoteError
from gridweave.functions import Function
from gridweave.jobs import Job
from gridweave.progress import Screen, place


def submit(
    target: str,
    /,
    *args: str,
    pip: Annotated[list[str] | None, Parameter(consume_multiple=False)] = None,
    max_hours: float | None = None,
    name: str | None = None,
    detach: bool = False,
    idempotency_key: str | None = None,
    hardware: Hardware = HARDWARE,
    common: Common = COMMON,
) -> int:
    """Run a function of a Python file on the cluster, follow its log, and print what it returns.

    Modules beside FILE travel along. Ctrl-C cancels the job.

    Parameters
    ----------
    target
        FILE.py:FUNC. Its decorator's options hold where none is given here.
    args
        Arguments: Python literals (7, 2.5, "[1, 2]", None), anything else is text. After -- also what begins with a dash.
    pip
        A requirement to install for it; may be given several times.
    max_hours
        End it after that many hours.
    name
        The job's name; default is the function's.
    detach
        Print the job's id and leave it running.
    idempotency_key
        The same key and request give the same job, however often they are sent.
    """
    output = common.output()
    function = load(target)
    options = hardware.over(function.options).changed(max_hours=max_hours, name=name)
    if pip:
        options = options.changed(env={**options.env, "pip": [*options.env.get("pip", ()), *pip]})
    wanted: Function[..., Any] = Function(function.__wrapped__, options)
    client = common.client(retry_for=60)
    if detach:
        job = spawn(client, wanted, tuple(literal(each) for each in args), {}, idempotency_key)
        output.emit({"id": job.id}) if output.json else output.line(job.id)
        return 0
    with contextlib.ExitStack() as stack:
        screen = stack.enter_context(Screen(wanted.__name__, log_to=sys.stderr if output.json else None))
        job = spawn(client, wanted, tuple(literal(each) for each in args), {}, idempotency_key)
        watch(client, job, screen)
    try:
        return show_outcome(client, output, job)
    finally:
        if not output.json:
            print(_receipt(client.status(job.id)), file=sys.stderr)


def _receipt(status: Mapping[str, Any]) -> str:
    """Where a job ran, for how long, and what it cost."""
    ran = f"{status['ran_ms'] / 1000:.3f} s" if status.get("ran_ms") else "not at all"
    where = f" on {found}" if (found := place(status.get("placement") or ())) else ""
    return f"{status['id']} ran {ran}{where}: {status.get('charged') or '0.000000'} credits"


def literal(text: str) -> Any:
    """What an argument means: a Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def show_outcome(client: Client, output: Output, job: Job, timeout: float | None = None) -> int:
    """Print a job's value, or the exception that it raised; gives the exit code."""
    try:
        value = job.result(timeout)
    except TimeoutError:
        raise
    except RemoteError as error:
        return _show_exception(output, job, error)
    except GridweaveError:
        raise
    except Exception as error:
        return _show_exception(output, job, error)
    if output.json:
        output.emit({"id": job.id, "phase": "Completed", **_as_json(value)})
    elif value is not None:
        output.line(value if isinstance(value, str) else repr(value))
    return 0


def _show_exception(output: Output, job: Job, error: Exception) -> int:
    error.__traceback__ = None  # frames of this program say nothing about the user's
    text = "".join(traceback.format_exception(error))
    sys.stderr.write(text)
    if output.json:
        output.emit({"id": job.id, "phase": "Failed", "error": {**error_facts(error), "traceback": text}})
    return 1


def _as_json(value: Any) -> dict[str, Any]:
    import json

    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {"value": None, "repr": repr(value)}
    return {"value": value}


def add_current_folder() -> None:
    """Let results whose classes live in the current folder be rebuilt."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
