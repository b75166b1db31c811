"""Jobs as their users see them: those that are objects, and those that are in the archive, as one list.

A job moves from the store to the archive while somebody turns the pages: the archive is always looked at after the
store, so it is found in one of the two; and a page goes on after the place of the last job given, so none comes twice.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from itertools import islice

from attrs import define, field

from core.archive import Archive, Place
from core.house import House
from ports.errors import Invalid
from ports.workloads import TERMINAL, Job, JobFilter, Page


def recall(house: House, job_id: str) -> Job | None:
    """From the store, else from the archive."""
    return house.workloads.get(job_id) or Archive(house.blobs).get(job_id)


def pages(house: House, which: JobFilter, cursor: str, limit: int) -> Page:
    """Newest first. Raises Invalid for a cursor that no page gave."""
    at, after = _parse(cursor) if cursor else ("", None)
    reader = _Reader(house, which, limit, at, after)
    found = list(islice(reader.jobs(), limit))
    if not found or not reader.has_more():
        return Page(tuple(found))
    return Page(tuple(found), _cursor(reader.position(), _place(found[-1])))


@define
class _Reader:
    """at: cursor of the store's page that is being read, None when there is no more. last: place of the last job given."""

    house: House
    which: JobFilter
    limit: int
    at: str | None
    last: Place | None
    _stored: list[Job] = field(factory=list, init=False)
    _next: str | None = field(default=None, init=False)
    _archived: Iterator[Job] = field(factory=lambda: iter(()), init=False)
    _old: Job | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._next = self.at
        self._look()

    def jobs(self) -> Iterator[Job]:
        while (job := self._take()) is not None:
            self.last = _place(job)
            yield job

    def has_more(self) -> bool:
        return bool(self._stored) or self._old is not None or self._next is not None

    def position(self) -> str | None:
        """Where the next page goes on in the store."""
        return self.at if self._stored else self._next

    def _take(self) -> Job | None:
        if not self._stored and self._next is not None:
            self._look()
        young, old = self._stored[0] if self._stored else None, self._old
        if young is not None and old is not None and young.uid == old.uid and young.id == old.id:
            self._old = next(self._archived, None)  # on its way from one to the other
            old = self._old
        if young is not None and (old is None or _place(young) >= _place(old)):
            return self._stored.pop(0)
        self._old = next(self._archived, None) if old is not None else None
        return old

    def _look(self) -> None:
        """Read pages of the store until one has something to give, and only then look into the archive."""
        while not self._stored and self._next is not None:
            self.at = self._next
            page = self.house.workloads.list(self.which, self.at, self.limit, newest_first=True)
            self._stored = [job for job in page.jobs if self.last is None or _place(job) < self.last]
            self._next = page.cursor or None
        if not self.which.phases or self.which.phases & TERMINAL:
            self._archived = Archive(self.house.blobs).newest_first(self.which, self.last)
            self._old = next(self._archived, None)


def _place(job: Job) -> Place:
    return job.created_at.ms, job.id


def _cursor(at: str | None, place: Place) -> str:
    text = json.dumps([at, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse(cursor: str) -> tuple[str | None, Place]:
    try:
        at, created, job = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error):
        at = created = job = ()
    if not (at is None or isinstance(at, str)) or type(created) is not int or not isinstance(job, str):
        raise Invalid("This cursor continues no list of jobs.", "cursor", "Give the cursor of the page before, or none.", cursor)
    return at, (created, job)
