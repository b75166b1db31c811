"""`ps`: your jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter
from rich.text import Text

from gridweave.client import Client
from gridweave.commands.numbers import WHOLE
from gridweave.commands.options import COMMON, Common
from gridweave.commands.output import Output, cancelling, grid, phase
from gridweave.commands.times import age, credited, ran
from gridweave.errors import Refused
from gridweave.progress import place

_ACTIVE = "Pending,Allocated,Running,Closing"
_REFRESH = 2.0  # seconds between two looks of --watch
Listed = tuple[list[dict[str, Any]], bool]  # the jobs, and whether they are those of all users
PHASES = ("Pending", "Allocated", "Running", "Closing", "Completed", "Failed", "Cancelled")


def _phases(context: Any) -> list[str]:
    """For the shell's completion of names joined by commas."""
    before, comma, _ = str(context.incomplete).rpartition(",")
    return [f"{before}{comma}{each}" for each in PHASES if each not in before.split(",")]


def ps(
    *,
    all: bool = False,
    phase: Annotated[str | None, Parameter(completer=_phases)] = None,
    name: str | None = None,
    label: str | None = None,
    limit: Annotated[int, WHOLE] = 100,
    watch: bool = False,
    common: Common = COMMON,
) -> int:
    """List your jobs, newest first; those that have not ended. An admin sees everybody's, with their users.

    Parameters
    ----------
    all
        Also those that have ended.
    phase
        Only these phases, joined by commas: Pending, Allocated, Running, Closing, Completed, Failed, Cancelled.
    name
        Only jobs of this name.
    label
        Only jobs with this label, KEY=VALUE.
    limit
        How many at most.
    watch
        Keep looking, until Ctrl-C.
    """
    output, client = common.output(), common.client()
    _check_phases(phase or "")
    if limit < 1:
        raise Refused(f"--limit cannot be {limit}", kind="usage", field="limit", value=str(limit), remedy="Give a number of jobs from 1.")
    if label is not None and "=" not in label:
        raise Refused(f"--label {label!r} has no '='", kind="usage", field="label", value=label, remedy="Write it as KEY=VALUE.")
    wanted = {"phases": phase or ("" if all else _ACTIVE), "name": name or "", "label": label or ""}
    if watch and output.terminal and not output.json:
        _watch(output, lambda: _listed(client, wanted, limit))
    while True:
        jobs, users = _listed(client, wanted, limit)
        if output.json:
            output.emit({"jobs": jobs})
        elif jobs or not output.terminal:
            output.table(_columns(users), [_row(job, output.terminal, users) for job in jobs])
        if not jobs and not output.json:
            chosen = all or phase or name or label
            output.remark("No jobs." if chosen else "No job is waiting or running; --all shows those that have ended.")
        if not watch:
            return 0
        time.sleep(_REFRESH)


def _check_phases(given: str) -> None:
    """Raises Refused."""
    for name in (each for each in given.split(",") if each and each not in PHASES):
        near = get_close_matches(name.strip().capitalize(), PHASES, n=1)
        remedy = f"{f'Did you mean {near[0]}? ' if near else ''}The phases are {', '.join(PHASES)}."
        raise Refused(f"--phase {name!r:.80} is no phase", kind="usage", field="phase", value=name, remedy=remedy)


def _columns(users: bool) -> list[str]:
    return ["ID", "NAME", *(["USER"] if users else []), "PHASE", "WHERE", "AGE", "RAN", "CREDITS"]


def _watch(output: Output, look: Callable[[], Listed]) -> NoReturn:
    """Draw the list again and again on a screen of its own; what it showed last stays when Ctrl-C ends it."""
    from rich.live import Live

    shown = grid(_columns(False), [])
    try:
        with Live(shown, console=output.console, screen=True, auto_refresh=False) as live:
            while True:
                jobs, users = look()
                shown = grid(_columns(users), [_row(job, True, users) for job in jobs])
                live.update(shown, refresh=True)
                time.sleep(_REFRESH)
    finally:
        output.console.print(shown)


def _listed(client: Client, wanted: Mapping[str, Any], limit: int) -> Listed:
    jobs: list[dict[str, Any]] = []
    users = False
    for page in client.job_pages(**wanted, limit=max(1, min(limit, 1000))):
        jobs += page["jobs"]
        users = bool(page.get("all_users"))
        if len(jobs) >= limit:
            break
    return jobs[: max(0, limit)], users


def _row(job: Mapping[str, Any], short: bool, users: bool) -> list[str | Text]:
    ident = str(job["id"])
    where = place(job.get("placement") or ()) if job.get("phase") not in ("Pending", None) else str(job.get("waiting") or "")
    if job.get("phase") == "Allocated" and job.get("setup"):
        where = f"{where}: {job['setup']}"
    cells = (phase(str(job.get("phase") or ""), cancelling(job)), where or str(job.get("reason") or ""))
    now = datetime.now(UTC)
    named = [str(job.get("name") or ""), *([str(job.get("user") or "")] if users else [])]
    shown = ident[:12] if short and len(ident) > 16 else ident
    return [shown, *named, *cells, age(job, now), ran(job, now), _credits(job)]


def _credits(job: Mapping[str, Any]) -> str:
    charged, at = str(job.get("charged") or ""), credited(job)
    return f"{charged} at {at}" if at else charged
