"""A page of jobs as one SQL statement: filter, order, and the cursor that continues it.

The cursor holds the last job's creation and id, so a page costs the same wherever it begins, and jobs that
come or go between two pages shift nothing.
"""

from __future__ import annotations

import base64
import binascii
import json

from attrs import frozen

from ports.errors import Invalid
from ports.workloads import Job, JobFilter, Phase

LIMIT = 10_000


@frozen
class Query:
    """sql gives one row more than the page holds, if there is one. order: "a" oldest first, "d" newest first."""

    sql: str
    values: tuple[str | int, ...]
    order: str

    def cursor_after(self, job: Job) -> str:
        text = json.dumps([self.order, job.created_at.ms, job.id], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def query(which: JobFilter, cursor: str, limit: int, newest_first: bool) -> Query:
    """Raises Invalid for a limit below 1 or a cursor that is none of this order."""
    if not 1 <= limit <= LIMIT:
        raise Invalid(f"limit is {limit}.", "limit", f"Give a number from 1 to {LIMIT}.", str(limit))
    order = "d" if newest_first else "a"
    terms: list[str] = []
    values: list[str | int] = []
    for column, value in (("user", which.user), ("name", which.name)):
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(value)
    for label in sorted(which.labels.items()):
        terms.append("id IN (SELECT job FROM labels WHERE key = ? AND value = ?)")
        values.extend(label)
    if cursor:
        terms.append(f"(created_at, id) {'<' if newest_first else '>'} (?, ?)")
        values.extend(_parse(cursor, order))
    direction = "DESC" if newest_first else "ASC"
    one = "seq, schema, body"
    sorting = f"ORDER BY created_at {direction}, id {direction} LIMIT {limit + 1}"
    if which.user is not None and not which.phases:
        return Query(_select(one, terms) + sorting, tuple(values), order)
    # One sorted branch per phase, merged: SQLite would else walk or sort every job of all phases. All of them are a list of all:
    # an index for that alone would cost a page at each submit.
    phases = sorted(which.phases or Phase)
    branch = _select("rowid AS at, created_at, id", ["phase = ?", *terms])
    branches = [f"SELECT * FROM ({branch}{sorting})" for _ in phases]  # noqa: S608 - made of constants
    page = f"SELECT at FROM ({' UNION ALL '.join(branches)}) {sorting}"  # noqa: S608 - bodies are read of what is on it alone
    return Query(
        f"SELECT {one} FROM jobs WHERE rowid IN ({page}) ORDER BY created_at {direction}, id {direction}",  # noqa: S608
        tuple(value for phase in phases for value in (phase.value, *values)),
        order,
    )


def _select(columns: str, terms: list[str]) -> str:
    where = f"WHERE {' AND '.join(terms)} " if terms else ""
    return f"SELECT {columns} FROM jobs {where}"  # noqa: S608 - terms are constants, values are bound


def _parse(cursor: str, order: str) -> tuple[int, str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        of, created, job = found
    except (ValueError, TypeError, binascii.Error):
        of = created = job = None
    if of != order or type(created) is not int or type(job) is not str:
        raise Invalid("This cursor continues no list of this order.", "cursor", "Give the cursor of the page before, or none.", cursor)
    return created, job
