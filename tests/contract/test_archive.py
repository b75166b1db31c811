"""Every store gives what has ended to the archive, and store and archive are one list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from adapters.local.blobs import FolderBlobs
from adapters.remote.stores import RemoteWorkloads
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from core.archive import Archived, archive, as_kept
from core.callers import Caller
from core.history import pages, recall
from core.house import House, Terms
from core.jobs import find
from ports.units import Instant, Span
from ports.workloads import CHARGED, HOLD_VOIDED, RESULT_STORED, ConditionStatus, Job, JobFilter, Phase, Workloads
from tests.contract.samples import a_full_job, a_job, counted
from tests.kube.control import line_to
from tests.memory.clock import ManualClock
from tests.memory.workloads import MemoryWorkloads

NOW, KEPT = Instant(4_000_000_000), Span.of(hours=168)


def settled(job: Job, ago: Span) -> Job:
    """Ended and settled so long ago, after whatever ran."""
    status = evolve(job.status, phase=Phase.COMPLETED, outcome=Phase.COMPLETED)
    for kind in (CHARGED, HOLD_VOIDED, RESULT_STORED):
        status = status.with_condition(kind, ConditionStatus.TRUE, Instant(NOW.ms - ago.ms))
    return evolve(job, status=status)


class ArchiveContract:
    """Give a fixture `store`: an empty one."""

    @pytest.fixture
    def house(self, store: Workloads, tmp_path: Path) -> House:
        clock, unused = ManualClock(NOW), None
        blobs = FolderBlobs(tmp_path / "blobs", "http://gateway", b"s" * 32)
        return House(store, unused, unused, unused, blobs, clock, unused, Terms(archive_after=KEPT), unused)  # type: ignore[arg-type]

    def test_what_ended_long_ago_moves_and_nothing_else(self, house: House) -> None:
        """With every field; and what is left behind is not touched."""
        old = house.workloads.create(settled(a_full_job("old"), KEPT))
        young = house.workloads.create(settled(a_job("young"), Span(KEPT.ms - 1)))
        live = house.workloads.create(a_job("live"))
        assert Archived(moved=1) == archive(house)
        assert [None, young, live] == [house.workloads.get(name) for name in ("old", "young", "live")]
        assert as_kept(old) == recall(house, "old") == find(house, Caller(old.spec.user), "old")
        assert Archived() == archive(house)

    def test_store_and_archive_are_one_list(self, house: House) -> None:
        """Newest first, in pages that mix both, each job once, also one that is in both."""
        for number in range(7):
            job = house.workloads.create(settled(a_job(f"job-{number}", at=number), KEPT if number % 2 else Span(0)))
            if number == 3:
                blobs_only = evolve(house, workloads=MemoryWorkloads())
                blobs_only.workloads.create(job)
                archive(blobs_only)  # as by a sweep that died before it deleted the object
        found, cursor = list[str](), ""
        for _ in range(7):
            page = pages(house, JobFilter(user="alice"), cursor, 2)
            found += [each.id for each in page.jobs]
            cursor = page.cursor
            if not cursor:
                break
            archive(house)  # while its reader turns the pages
        assert [f"job-{number}" for number in reversed(range(7))] == found

    def test_one_that_changed_meanwhile_stays(self, house: House) -> None:
        """Whoever wrote to it has not seen that it is gone; the next round decides anew."""
        job = house.workloads.create(settled(a_job("job-1"), KEPT))
        inner = house.workloads

        class Raced:
            def __getattr__(self, name: str) -> object:
                return getattr(inner, name)

            def delete(self, job: Job) -> None:
                if job.version == first:
                    inner.replace(counted(job))
                inner.delete(job)

        first = job.version
        assert Archived() == archive(evolve(house, workloads=Raced()))  # type: ignore[arg-type]
        assert house.workloads.get("job-1") is not None
        assert Archived(moved=1) == archive(house)
        assert 1 == getattr(recall(house, "job-1"), "status", job.status).position
        assert ["job-1"] == [each.id for each in pages(house, JobFilter(), "", 10).jobs]


class TestSqlite(ArchiveContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteWorkloads]:
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as made:
            yield made


class TestKube(ArchiveContract):
    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[KubeWorkloads]:
        with closing(KubeWorkloads(client, page=3)) as made:
            yield made


class TestRemote(ArchiveContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[RemoteWorkloads]:
        with line_to(client, page=3) as line:
            yield RemoteWorkloads(line)
