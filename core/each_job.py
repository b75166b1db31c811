"""All stored jobs that match, a page at a time: as many at once as spares a store without an index from reading everything often."""

from __future__ import annotations

from collections.abc import Iterator

from core.house import House
from ports.workloads import Job, JobFilter, Page

AT_ONCE = 5_000  # jobs in one answer: a store without an index reads everything for each


def each_job(house: House, which: JobFilter) -> Iterator[Job]:
    """Those that can be read. Raises Unavailable."""
    for page in each_page(house, which):
        yield from page.jobs


def each_page(house: House, which: JobFilter) -> Iterator[Page]:
    """Raises Unavailable."""
    cursor = ""
    while True:
        page = house.workloads.list(which, cursor, AT_ONCE)
        yield page
        cursor = page.cursor
        if not cursor:
            return
