"""Workloads in a dict: the plainest thing that keeps the contract. For simulations and unit tests."""

from __future__ import annotations

import threading
import time

from attrs import evolve

from ports.errors import AlreadyExists, Conflict, Invalid, Unreadable
from ports.units import Span
from ports.workloads import Changes, Job, JobFilter, Page, check_transition, checked_id


class MemoryWorkloads:
    """`ports.workloads.Workloads`. Tombstones are kept for ever."""

    draws_uids = False

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._spoiled: set[str] = set()
        self._gone: dict[str, int] = {}
        self._seq = 0
        self._changed = threading.Condition()

    def create(self, job: Job) -> Job:
        checked_id(job.id)
        with self._changed:
            if job.id in self._jobs:
                raise AlreadyExists(job.id)
            self._gone.pop(job.id, None)
            return self._store(job)

    def get(self, job_id: str) -> Job | None:
        if job_id in self._spoiled:
            raise Unreadable("a stored job", "a newer release wrote it")
        return self._jobs.get(job_id)

    def peek(self, job_id: str) -> Job | None:
        return None if job_id in self._spoiled else self._jobs.get(job_id)

    def spoil(self, job_id: str, mend: bool = False) -> None:
        """Somebody writes by hand what nobody here can read, or mends it."""
        with self._changed:
            self._store(self._jobs[job_id])
            self._spoiled.discard(job_id) if mend else self._spoiled.add(job_id)

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        if limit < 1:
            raise Invalid(f"limit is {limit}.", "limit", "Give 1 or more.", str(limit))
        order = "d" if newest_first else "a"
        with self._changed:
            found = sorted((job for job in self._jobs.values() if _matches(job, which)), key=_place, reverse=newest_first)
        if cursor:
            of, created, after = _parse(cursor)
            if of != order:
                raise Invalid("This cursor continues no list of this order.", "cursor", "Give the cursor of the page before.", cursor)
            place = (created, after)
            found = [job for job in found if (_place(job) < place if newest_first else _place(job) > place)]
        found = [job for job in found if job.id not in self._spoiled]
        page = tuple(found[:limit])
        more = f"{order},{page[-1].created_at.ms},{page[-1].id}" if len(found) > limit else ""
        return Page(page, more, tuple(sorted(self._spoiled)))

    def replace(self, job: Job) -> Job:
        with self._changed:
            check_transition(self._current(job), job)
            return self._store(job)

    def delete(self, job: Job) -> None:
        with self._changed:
            self._current(job)
            del self._jobs[job.id]
            self._seq += 1
            self._gone[job.id] = self._seq
            self._changed.notify_all()

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        with self._changed:
            if not cursor:
                return Changes((), (), str(self._seq))
            if not cursor.isdigit():
                raise Invalid("This cursor is none that a call of changes gave.", "cursor", "Ask on from the last answer's.", cursor)
            deadline = time.monotonic() + wait.seconds
            while self._seq <= int(cursor) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            jobs = sorted((job for job in self._jobs.values() if int(job.version) > int(cursor)), key=lambda job: int(job.version))
            gone = sorted((seq, key) for key, seq in self._gone.items() if seq > int(cursor))
            unread = tuple(job.id for job in jobs if job.id in self._spoiled)
            jobs = [job for job in jobs if job.id not in self._spoiled]
            return Changes(tuple(jobs), tuple(key for _, key in gone), str(self._seq), unreadable=unread)

    def _current(self, job: Job) -> Job:
        stored = self._jobs.get(job.id)
        if stored is None or stored.version != job.version:
            raise Conflict(job.id)
        return stored

    def _store(self, job: Job) -> Job:
        self._seq += 1
        stored = evolve(job, version=str(self._seq))
        self._jobs[job.id] = stored
        self._changed.notify_all()
        return stored


def _place(job: Job) -> tuple[int, str]:
    return job.created_at.ms, job.id


def _matches(job: Job, which: JobFilter) -> bool:
    return (
        which.user in (None, job.spec.user)
        and which.name in (None, job.spec.name)
        and (not which.phases or job.status.phase in which.phases)
        and which.labels.items() <= job.spec.labels.items()
    )


def _parse(cursor: str) -> tuple[str, int, str]:
    order, _, rest = cursor.partition(",")
    created, _, job = rest.partition(",")
    if not created.isdigit():
        raise Invalid("This cursor continues no list.", "cursor", "Give the cursor of the page before.", cursor)
    return order, int(created), job
