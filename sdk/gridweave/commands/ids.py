"""How a job is named on the command line: by its id, the start of one, or its name, where only one of the newest fits.

Of several jobs of one user with that name the one that has not ended is meant, if it is the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.commands.times import age
from gridweave.errors import GridweaveError, NotFound, Refused
from gridweave.jobs import TERMINAL

_PAGES = 10  # of 1,000 jobs: how far back is looked
_OFFERED = 50  # ids that completion offers
_LISTED = 10  # jobs that are shown where several fit
Job = dict[str, Any]


def offered(context: Any) -> dict[str, str]:
    """The newest jobs' ids for the shell's completion, each with its name and phase; none if the gateway does not answer."""
    try:
        with Client(context["url"].raw or None, retry_for=0) as client:
            return {str(job["id"]): f"{job.get('name')}, {job.get('phase')}" for job in client.jobs(limit=_OFFERED, pages=1)}
    except (GridweaveError, KeyError):
        return {}


_HELP = "A job's id, the start of one, or a name, if only one job fits or only one that fits has not ended."
JobId = Annotated[str, Parameter(help=_HELP, completer=offered)]


def full_id(client: Client, given: str) -> str:
    """The id of the job that is meant. Raises NotFound, or Refused if several fit."""
    try:
        return str(client.status(given)["id"])
    except NotFound as error:
        missing = error
    except Refused as error:
        if error.status != 400:
            raise
        missing = NotFound(f"There is no job {given!r}.", kind="not-found", status=404, field="id", value=given)
    fitting = _fitting(client, given) if given else []
    if not fitting:
        missing.remedy = missing.remedy or "gridweave ps --all lists your jobs."
        raise missing
    meant = fitting[0] if len(fitting) == 1 else _only_unfinished(fitting, given)
    if meant is None:
        raise _ambiguous(fitting, given)
    return str(meant["id"])


def _fitting(client: Client, given: str) -> list[Job]:
    """Newest first."""
    jobs = client.jobs(limit=1000, pages=_PAGES)
    found = (job for job in jobs if str(job["id"]).startswith(given) or job.get("name") == given)
    return list({str(job["id"]): job for job in found}.values())


def _only_unfinished(fitting: Sequence[Job], name: str) -> Job | None:
    """Never a guess between users: an administrator would end somebody else's."""
    left = [job for job in fitting if job.get("phase") not in TERMINAL]
    sure = len(left) == 1 and left[0].get("name") == name and len({job.get("user") for job in fitting}) == 1
    return left[0] if sure else None


def _ambiguous(fitting: Sequence[Job], given: str) -> Refused:
    now, several = datetime.now(UTC), len({job.get("user") for job in fitting}) > 1
    rows = [
        "  ".join([str(job["id"]), *([str(job.get("user"))] if several else []), f"{job.get('phase')}, submitted {age(job, now)} ago"])
        for job in fitting[:_LISTED]
    ]
    rows += [f"and {len(fitting) - _LISTED} older ones: gridweave ps --all lists them"] if len(fitting) > _LISTED else []
    left = sum(job.get("phase") not in TERMINAL for job in fitting)
    unfinished = f"{left or 'none'} of them {'are' if left > 1 else 'is'} unfinished"
    words = f"{len(fitting)} jobs are named {given!r} or have an id that begins so; {unfinished}."
    remedy = "\n".join(["Give an id, or the start of one; the newest first:", *rows])
    return Refused(words, kind="ambiguous", field="id", value=given, remedy=remedy)
