"""`ps`, `status`, `logs`, `result` and `cancel`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from gridweave.client import Client
from gridweave.commands.options import COMMON, Common, JobId, full_id
from gridweave.commands.output import Output, grid, phase
from gridweave.commands.submit import add_current_folder, show_outcome
from gridweave.errors import GridweaveError, Refused, Unavailable
from gridweave.jobs import TERMINAL, Job
from gridweave.outcomes import failure
from gridweave.progress import elapsed, place
from gridweave.streams import LogPiece

_ACTIVE = "Pending,Allocated,Running,Closing"
_REFRESH = 2.0  # seconds between two looks of --watch
_COLUMNS = ("ID", "NAME", "PHASE", "WHERE", "AGE", "RAN", "CREDITS")


def ps(*, all: bool = False, phase: str | None = None, limit: int = 100, watch: bool = False, common: Common = COMMON) -> int:
    """List your jobs, newest first; those that have not ended.

    Parameters
    ----------
    all
        Also those that have ended.
    phase
        Only these phases, joined by commas: Pending, Allocated, Running, Closing, Completed, Failed, Cancelled.
    limit
        How many at most.
    watch
        Keep looking, until Ctrl-C.
    """
    output, client = common.output(), common.client()
    phases = phase or ("" if all else _ACTIVE)
    if watch and output.terminal and not output.json:
        _watch(client, output, phases, limit)
    while True:
        jobs = _listed(client, phases, limit)
        if output.json:
            output.emit({"jobs": jobs})
        elif jobs or not output.terminal:
            output.table(_COLUMNS, [_row(job, output.terminal) for job in jobs])
        if not jobs and not output.json:
            output.remark("No jobs." if all or phase else "No job is waiting or running; --all shows those that have ended.")
        if not watch:
            return 0
        time.sleep(_REFRESH)


def _watch(client: Client, output: Output, phases: str, limit: int) -> None:
    from rich.live import Live

    with Live(console=output.console, screen=False, auto_refresh=False) as live:
        while True:
            live.update(grid(_COLUMNS, [_row(job, True) for job in _listed(client, phases, limit)]), refresh=True)
            time.sleep(_REFRESH)


def _listed(client: Client, phases: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for job in client.jobs(phases=phases, limit=min(limit, 1000)):
        if len(found) >= limit:
            break
        found.append(job)
    return found


def _row(job: Mapping[str, Any], short: bool) -> list[str | Text]:
    ident = str(job["id"])
    where = place(job.get("placement") or ()) if job.get("phase") not in ("Pending", None) else str(job.get("waiting") or "")
    if job.get("phase") == "Allocated" and job.get("setup"):
        where = f"{where}: {job['setup']}"
    cells = (str(job.get("name") or ""), phase(str(job.get("phase") or "")), where or str(job.get("reason") or ""))
    age, charged = _since(job.get("created_at")), str(job.get("charged") or "")
    return [ident[:12] if short and len(ident) > 16 else ident, *cells, age, _ran(job), charged]


def _ran(job: Mapping[str, Any]) -> str:
    seconds = (job.get("ran_ms") or 0) / 1000
    if not seconds and job.get("phase") == "Running":
        return _since(job.get("started_at"))
    return "" if not seconds else f"{seconds:.3f} s" if seconds < 60 else elapsed(seconds)


def _since(then: Any) -> str:
    try:
        return elapsed(max(0.0, (datetime.now(UTC) - datetime.fromisoformat(str(then))).total_seconds()))
    except (ValueError, TypeError):
        return ""


def status(id: JobId, /, *, common: Common = COMMON) -> int:
    """Show what is known of a job."""
    output, client = common.output(), common.client()
    facts = client.status(full_id(client, id))
    if output.json:
        output.emit(facts)
        return 0
    ended = facts.get("exit") or {}
    waits = f"{facts['position']}: {facts.get('waiting') or ''}" if facts.get("position") else str(facts.get("waiting") or "")
    shown: dict[str, str | Text] = {
        "id": str(facts["id"]),
        "name": str(facts.get("name") or ""),
        "phase": phase(str(facts.get("phase") or "")),
        "reason": str(facts.get("reason") or ""),
        "message": str(facts.get("message") or ""),
        "queue": waits if facts.get("phase") == "Pending" else "",
        "set-up": str(facts.get("setup") or ""),
        "where": place(facts.get("placement") or ()),
        "attempt": str(facts.get("attempt") or ""),
        "created": str(facts.get("created_at") or ""),
        "started": str(facts.get("started_at") or ""),
        "finished": str(facts.get("finished_at") or ""),
        "ran": f"{facts['ran_ms'] / 1000:.3f} s" if facts.get("ran_ms") else "",
        "rate": f"{facts['rate_per_hour']} credits per hour" if facts.get("rate_per_hour") else "",
        "held": f"{facts['hold']} credits" if facts.get("hold") else "",
        "charged": f"{facts['charged']} credits" if facts.get("charged") else "",
        "exit": " ".join(str(ended[key]) for key in ("kind", "code", "signal", "message") if ended.get(key) not in (None, "")),
        "labels": ", ".join(f"{key}={value}" for key, value in (facts.get("labels") or {}).items()),
    }
    output.fields(shown)
    if ended.get("log_tail") and facts.get("phase") == "Failed":
        output.line("last lines of its log:")
        output.line(str(ended["log_tail"]).rstrip())
    return 0


def logs(id: JobId, /, *, follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False, common: Common = COMMON) -> int:
    """Print a job's log, byte for byte.

    Parameters
    ----------
    follow
        Go on until the job has ended. Ctrl-C stops the command, not the job.
    """
    output, client = common.output(), common.client(retry_for=60 if follow else 5)
    ident = full_id(client, id)
    pieces = (piece.data for piece in client.follow(ident) if isinstance(piece, LogPiece)) if follow else client.log(ident)
    for piece in pieces:
        if output.json:
            output.emit({"id": ident, "text": piece.decode("utf-8", "replace")})
        else:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return 0


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
        Seconds to wait for its end; for ever if not given.
    """
    output, client = common.output(), common.client()
    job = Job(full_id(client, id), client)
    add_current_folder()
    try:
        if output_file is not None:
            return _save(client, output, job, output_file, timeout)
        return show_outcome(client, output, job, timeout)
    except TimeoutError as error:
        raise Unavailable(f"Job {job.id} has not ended within {timeout} s.") from error


def _save(client: Client, output: Output, job: Job, target: Path, timeout: float | None) -> int:
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            download = client.result(job.id, 60 if until is None else max(0.0, min(60.0, until - time.monotonic())))
        except Refused as refused:
            if refused.kind != "no-result":
                raise
            raise failure(refused, job.id) from None
        if download is not None:
            break
        if until is not None and time.monotonic() >= until:
            raise TimeoutError
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


def cancel(id: JobId, /, *more: JobId, common: Common = COMMON) -> int:
    """Ask for the end of one or several jobs; they are Cancelled when their processes are gone."""
    output, client = common.output(), common.client()
    answers, failed = [], None
    for each in (id, *more):
        try:
            answers.append(client.cancel(full_id(client, each)))
        except GridweaveError as error:
            failed = failed or error
            continue
        facts = answers[-1]
        over = facts.get("phase") in TERMINAL
        if not output.json:
            output.line(f"{facts['id']}\t{'had ended before: ' if over else 'cancelling, now '}{facts.get('phase')}")
    if output.json and not failed:
        output.emit({"jobs": answers})
    if failed is not None:
        raise failed
    return 0
