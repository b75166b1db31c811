"""How a command shows what became of a job, once: what was in the log that it has just streamed is not told again."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from typing import Any

from gridweave.client import Client
from gridweave.commands.output import Output, common_facts
from gridweave.jobs import Job, ended
from gridweave.outcomes import raised_by, value_of

_HEADING = "Remote traceback (job "


def show_outcome(client: Client, output: Output, job: Job, timeout: float | None = None, *, log: str | None = None) -> int:
    """Print a job's value, or the exception that it raised; gives the exit code. log: the end of its log, if it was shown."""
    download = ended(client, job.id, timeout, log_shown=log is not None)
    if download.raised:
        return _show_exception(output, job, raised_by(download, job.id), log or "")
    value = value_of(download, job.id)
    if output.json:
        output.emit({"id": job.id, "phase": "Completed", **_as_json(value)})
    elif value is not None:
        output.line(value if isinstance(value, str) else repr(value))
    return 0


def _show_exception(output: Output, job: Job, error: Exception, log: str) -> int:
    error.__traceback__ = None  # frames of this program say nothing about the user's
    whole = "".join(traceback.format_exception(error))
    with contextlib.suppress(BrokenPipeError):  # nobody reads it; the exit code tells all the same
        sys.stderr.write(_once(error, whole, log))
        sys.stderr.flush()
        if output.json:
            output.emit({"id": job.id, "phase": "Failed", "error": {**common_facts(error, job.id), "traceback": whole}})
    return 1


def _once(error: Exception, whole: str, log: str) -> str:
    """What has not been said yet: the remote traceback ends with the exception's own line, and may be in the log."""
    if hasattr(error.__cause__ or error.__context__, "__notes__"):
        return whole  # each of the chain has a traceback of its own
    notes: list[str] = getattr(error, "__notes__", [])
    remote = next((note.partition("\n")[2] for note in notes if note.startswith(_HEADING)), "")
    hints = [note for note in notes if not note.startswith(_HEADING)]
    last = remote.rstrip().rpartition("\n")[2]
    if not remote:
        return whole
    said = [f"error: {last}"] if last and last in log and "Traceback (most recent call last)" in log else [remote]
    return "\n".join([*said, *hints]) + "\n"


def _as_json(value: Any) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {"value": None, "repr": repr(value)}
    return {"value": value}
