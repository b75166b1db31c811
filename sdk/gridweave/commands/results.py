"""`result`: what a job returned."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.commands.ids import JobId, full_id
from gridweave.commands.options import COMMON, Common
from gridweave.commands.outcomes import show_outcome
from gridweave.commands.output import Output, TimeIsUp
from gridweave.downloads import Download
from gridweave.errors import Refused
from gridweave.jobs import TERMINAL, Job
from gridweave.lines import Line
from gridweave.outcomes import failure
from gridweave.progress import in_words
from gridweave.streams import State

_MIB = 1024 * 1024


def result(
    id: JobId,
    /,
    *,
    output_file: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    timeout: float | None = None,
    common: Common = COMMON,
) -> int:
    """Print what a job returned, once it has ended; if it raised, its exception (exit code 1).

    Parameters
    ----------
    output_file
        Write the stored result there as it is: a pickle, for pickle.load. Of a job that raised nothing is written.
    timeout
        Seconds to wait for its end, for ever if not given. When they are over the exit code is 124, and the job goes on.
    """
    if timeout is not None and not timeout >= 0:
        remedy = "Give a number of seconds from 0."
        raise Refused(f"--timeout cannot be {timeout:g}", kind="usage", field="timeout", value=str(timeout), remedy=remedy)
    output, client = common.output(), common.client()
    job = Job(full_id(client, id), client)
    _say_what_it_waits_for(output, client.status(job.id), timeout)
    _add_current_folder()
    try:
        if output_file is not None:
            return _save(client, output, job, output_file, timeout)
        return show_outcome(client, output, job, timeout)
    except TimeoutError as error:
        raise TimeIsUp(f"Job {job.id} has not ended within {timeout:g} s; it goes on.", job.id) from error


def _say_what_it_waits_for(output: Output, facts: Mapping[str, Any], timeout: float | None) -> None:
    """A pipe that is silent for hours looks broken."""
    phase = str(facts.get("phase") or "")
    if phase in TERMINAL:
        return
    now = in_words(State(phase, str(facts.get("waiting") or ""), int(facts.get("position") or 0), str(facts.get("setup") or "")))
    what = phase if now == phase.lower() else f"{phase} ({now})"
    bound = "" if timeout is None else f" for at most {timeout:g} s"
    output.remark(f"Job {facts['id']} is {what}; waiting{bound} for its end. Ctrl-C stops the wait, not the job.")


def _save(client: Client, output: Output, job: Job, target: Path, timeout: float | None) -> int:
    with closing(_Arriving(job.id)) as arriving:
        download = _fetched(client, job, timeout, arriving)
    if download.raised:
        download.close()
        return show_outcome(client, output, job)
    try:
        with target.open("wb") as file:
            for piece in download.chunks():
                file.write(piece)
    except OSError as error:
        words = f"{target} cannot be written: {error.strerror}."
        raise Refused(words, kind="usage", field="output", value=str(target), remedy="Give another path.") from error
    finally:
        download.close()
    facts = {"id": job.id, "file": str(target), "size": download.size, "sha256": download.etag}
    output.emit(facts) if output.json else output.remark(f"{download.size} bytes in {target}")
    return 0


class _Arriving:
    """A line on the terminal that says how much of a result has come."""

    def __init__(self, job_id: str) -> None:
        self._job_id, self._so_far, self._total = job_id, 0, 0
        self._line = Line(self._words)

    def __call__(self, so_far: int, total: int) -> None:
        self._so_far, self._total = so_far, total
        self._line.draw()

    def close(self) -> None:
        self._line.close()

    def _words(self) -> str:
        return f"result of {self._job_id} · {self._so_far / _MIB:.0f}" + (f" of {self._total / _MIB:.0f} MiB" if self._total else " MiB")


def _fetched(client: Client, job: Job, timeout: float | None, arriving: _Arriving) -> Download:
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            download = client.result(job.id, 60 if until is None else max(0.0, min(60.0, until - time.monotonic())), arriving)
        except Refused as refused:
            if refused.kind != "no-result":
                raise
            raise failure(refused, job.id) from None
        if download is not None:
            return download
        if until is not None and time.monotonic() >= until:
            raise TimeoutError


def _add_current_folder() -> None:
    """Let results whose classes live in the current folder be rebuilt."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
