"""How a job is named on the command line: by its id, the start of one, or its name, where only one of the newest fits."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.errors import GridweaveError, NotFound, Refused

_PAGES = 10  # of 1,000 jobs: how far back is looked
_OFFERED = 50  # ids that completion offers


def offered(context: Any) -> dict[str, str]:
    """The newest jobs' ids for the shell's completion, each with its name and phase; none if the gateway does not answer."""
    try:
        with Client(context["url"].raw or None, retry_for=0) as client:
            return {str(job["id"]): f"{job.get('name')}, {job.get('phase')}" for job in client.jobs(limit=_OFFERED, pages=1)}
    except (GridweaveError, KeyError):
        return {}


JobId = Annotated[str, Parameter(help="A job's id, the start of one, or a name, if only one job fits.", completer=offered)]


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
    if len(fitting) > 1:
        remedy = f"Give its id, or more of it: {', '.join(fitting[:5])}{' …' if len(fitting) > 5 else ''}"
        words = f"{len(fitting)} jobs are named {given!r} or have an id that begins so."
        raise Refused(words, kind="ambiguous", field="id", value=given, remedy=remedy)
    if not fitting:
        missing.remedy = missing.remedy or "gridweave ps --all lists your jobs."
        raise missing
    return fitting[0]


def _fitting(client: Client, given: str) -> list[str]:
    jobs = client.jobs(limit=1000, pages=_PAGES)
    found = [str(job["id"]) for job in jobs if str(job["id"]).startswith(given) or job.get("name") == given]
    return list(dict.fromkeys(found))
