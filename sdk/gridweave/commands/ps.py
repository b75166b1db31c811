"""`ps`: your jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter
from rich.text import Text

from gridweave.client import Client
from gridweave.commands.options import COMMON, Common
from gridweave.commands.output import Output, cancelling, grid, phase
from gridweave.errors import Refused
from gridweave.progress import elapsed, place

_ACTIVE = "Pending,Allocated,Running,Closing"
_REFRESH = 2.0  # seconds between two looks of --watch
_COLUMNS = ("ID", "NAME", "PHASE", "WHERE", "AGE", "RAN", "CREDITS")


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
    limit: int = 100,
    watch: bool = False,
    common: Common = COMMON,
) -> int:
    """List your jobs, newest first; those that have not ended.

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
    if label is not None and "=" not in label:
        raise Refused(f"--label {label!r} has no '='", kind="usage", field="label", value=label, remedy="Write it as KEY=VALUE.")
    wanted = {"phases": phase or ("" if all else _ACTIVE), "name": name or "", "label": label or ""}
    if watch and output.terminal and not output.json:
        _watch(output, lambda: _listed(client, wanted, limit))
    while True:
        jobs = _listed(client, wanted, limit)
        if output.json:
            output.emit({"jobs": jobs})
        elif jobs or not output.terminal:
            output.table(_COLUMNS, [_row(job, output.terminal) for job in jobs])
        if not jobs and not output.json:
            chosen = all or phase or name or label
            output.remark("No jobs." if chosen else "No job is waiting or running; --all shows those that have ended.")
        if not watch:
            return 0
        time.sleep(_REFRESH)


def _watch(output: Output, look: Callable[[], list[dict[str, Any]]]) -> NoReturn:
    """Draw the list again and again on a screen of its own; what it showed last stays when Ctrl-C ends it."""
    from rich.live import Live

    shown = grid(_COLUMNS, [])
    try:
        with Live(shown, console=output.console, screen=True, auto_refresh=False) as live:
            while True:
                shown = grid(_COLUMNS, [_row(job, True) for job in look()])
                live.update(shown, refresh=True)
                time.sleep(_REFRESH)
    finally:
        output.console.print(shown)


def _listed(client: Client, wanted: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    return list(islice(client.jobs(**wanted, limit=max(1, min(limit, 1000))), max(0, limit)))


def _row(job: Mapping[str, Any], short: bool) -> list[str | Text]:
    ident = str(job["id"])
    where = place(job.get("placement") or ()) if job.get("phase") not in ("Pending", None) else str(job.get("waiting") or "")
    if job.get("phase") == "Allocated" and job.get("setup"):
        where = f"{where}: {job['setup']}"
    cells = (str(job.get("name") or ""), phase(str(job.get("phase") or ""), cancelling(job)), where or str(job.get("reason") or ""))
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
