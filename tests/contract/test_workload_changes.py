"""What every store of jobs tells of its changes: a mirror that follows it equals it in the end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from adapters.remote.stores import RemoteWorkloads
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from ports.errors import AlreadyExists, IllegalTransition, Invalid, Unavailable
from ports.units import Span
from ports.workloads import Changes, Job, Phase, Workloads
from tests.contract.races import in_processes
from tests.contract.samples import a_job, counted, to_phase
from tests.kube.control import line_to
from tests.memory.workloads import MemoryWorkloads

LONG = Span.of(seconds=60)  # a wait that ends early, or the test hangs into its time-out


def fold(mirror: dict[str, Job], found: Changes) -> None:
    for key in found.deleted:
        mirror.pop(key, None)
    mirror.update((job.id, job) for job in found.jobs)


class ChangesContract:
    """Give a fixture `store`: an empty one."""

    def test_changes_begin_now(self, store: Workloads) -> None:
        """First the cursor, then the list: nothing that happens between the two is missed."""
        store.create(a_job("before"))
        found = store.changes("", LONG)
        assert Changes((), (), found.cursor) == found
        assert Changes((), (), found.cursor) == store.changes(found.cursor)

    def test_each_change_is_told(self, store: Workloads) -> None:
        """A mirror that folds them equals the store."""
        kept, gone = store.create(a_job("kept")), store.create(a_job("gone"))
        cursor = store.changes("").cursor
        new = store.create(a_job("new"))
        kept = store.replace(counted(kept))
        store.delete(gone)
        found = store.changes(cursor)
        assert [new, kept] == sorted(found.jobs, key=lambda job: job.id, reverse=True)
        assert ("gone",) == found.deleted
        assert not found.whole
        assert Changes((), (), found.cursor) == store.changes(found.cursor)

    def test_only_the_latest_state_is_told(self, store: Workloads) -> None:
        """An older state after a newer one would undo it in a mirror."""
        job = store.create(a_job())
        cursor = store.changes("").cursor
        for _ in range(5):
            job = store.replace(counted(job))
        assert (job,) == store.changes(cursor).jobs

    def test_a_job_made_anew_is_told_as_it_is_now(self, store: Workloads) -> None:
        """Were its deletion told too, a mirror could apply it last."""
        old = store.create(a_job())
        cursor = store.changes("").cursor
        store.delete(old)
        new = store.create(evolve(a_job(), uid="another"))
        found = store.changes(cursor)
        assert (new,) == found.jobs
        assert () == found.deleted

    def test_a_job_that_came_and_went_is_told_as_gone(self, store: Workloads) -> None:
        """Whoever saw it by a get must learn that it is gone."""
        cursor = store.changes("").cursor
        store.delete(store.create(a_job()))
        found = store.changes(cursor)
        assert ((), ("job-1",)) == (found.jobs, found.deleted)

    def test_a_cursor_may_be_used_again(self, store: Workloads) -> None:
        """A reader that died asks on from the last cursor that it kept."""
        cursor = store.changes("").cursor
        made = store.create(a_job())
        assert [(made,), (made,)] == [store.changes(cursor).jobs, store.changes(cursor).jobs]

    def test_a_refused_write_is_no_change(self, store: Workloads) -> None:
        """Else two writers in conflict would wake everybody for nothing."""
        made = store.create(a_job())
        cursor = store.changes("").cursor
        with pytest.raises(AlreadyExists):
            store.create(a_job())
        with pytest.raises(IllegalTransition):
            store.replace(to_phase(made, Phase.COMPLETED))
        found = store.changes(cursor)
        assert ((), ()) == (found.jobs, found.deleted)

    @pytest.mark.parametrize("cursor", ["x", "🦉", ":", "1:x", "-1"])
    def test_a_cursor_of_nobody_is_refused(self, store: Workloads, cursor: str) -> None:
        """Silence would look like a store in which nothing happens."""
        with pytest.raises(Invalid, match="cursor"):
            store.changes(cursor)

    def test_a_wait_ends_without_a_change(self, store: Workloads) -> None:
        """The caller has other things to do, too."""
        cursor = store.changes("").cursor
        assert Changes((), (), cursor) == store.changes(cursor, Span(30))

    def test_a_wait_ends_with_the_first_change(self, store: Workloads) -> None:
        """A submitted job is placed at once, not at the next round."""
        cursor = store.changes("").cursor
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(store.changes, cursor, LONG) for _ in range(3)]
            made = store.create(a_job())
            assert [(made,)] * 3 == [each.result().jobs for each in waiting]

    def test_a_mirror_of_changes_equals_the_store_in_the_end(self, store: Workloads) -> None:
        """The scheduler decides on its mirror: a change that it misses is a job that hangs."""
        cursor = store.changes("").cursor
        mirror: dict[str, Job] = {}

        def churn(number: int) -> None:
            for turn in range(30):
                made = store.create(a_job(f"job-{number}-{turn % 3}"))
                made = store.replace(counted(made))
                if turn < 27:
                    store.delete(made)

        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(churn, number) for number in range(3)]
            while True:
                last = all(writer.done() for writer in writers)
                found = store.changes(cursor, Span(20))
                cursor = found.cursor
                fold(mirror, found)
                if last and not found.jobs and not found.deleted:
                    break
        assert [None] * 3 == [writer.result() for writer in writers]
        assert {job.id: job for job in store.list().jobs} == mirror
        assert 9 == len(mirror)


class SharedChangesContract:
    """For stores that processes share. Give also a fixture `address`, which `tests.contract.races` can open."""

    def test_a_wait_ends_with_another_process_change(self, store: Workloads, address: str) -> None:
        """What one gateway took is placed at once by the scheduler in another."""
        cursor = store.changes("").cursor
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.changes, cursor, LONG)
            in_processes("create", address, ["alice"])
            assert ["job-1"] == [job.id for job in waiting.result().jobs]


class TestMemoryChanges(ChangesContract):
    @pytest.fixture
    def store(self) -> MemoryWorkloads:
        return MemoryWorkloads()


class TestSqliteChanges(ChangesContract, SharedChangesContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}"

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteWorkloads]:
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as made:
            yield made

    def test_closing_ends_a_wait(self, tmp_path: Path) -> None:
        """A process that was told to end must not hang in a long wait."""
        database = open_gridweave(tmp_path)
        store = SqliteWorkloads(database)
        cursor = store.changes("").cursor
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.changes, cursor, LONG)
            store.close()
            with pytest.raises(Unavailable):
                waiting.result()
        database.close()

    def test_many_changes_come_in_parts(self, tmp_path: Path) -> None:
        """A reader that was away for long must not have all of it in memory at once."""
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database, at_once=2)) as store:
            cursor = store.changes("").cursor
            made = [store.create(a_job(f"job-{number}")) for number in range(5)]
            store.delete(made[0])
            mirror: dict[str, Job] = {}
            sizes = []
            while (found := store.changes(cursor)).jobs or found.deleted:
                cursor = found.cursor
                sizes.append(len(found.jobs))
                fold(mirror, found)
            assert [2, 2, 0] == sizes
            assert {"job-1", "job-2", "job-3", "job-4"} == mirror.keys()

    def test_a_cursor_from_before_the_kept_deletions_gives_everything(self, tmp_path: Path) -> None:
        """A mirror must learn of deletions whose tombstones are gone, or it keeps them for ever."""
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database, tombstones=3)) as store:
            stays = store.create(a_job("stays"))
            old = store.changes("").cursor
            for number in range(20):
                store.delete(store.create(a_job(f"job-{number}")))
            found = store.changes(old, LONG)
            assert ((stays,), (), True) == (found.jobs, found.deleted, found.whole)
            assert Changes((), (), found.cursor) == store.changes(found.cursor)

    def test_a_cursor_of_another_file_gives_everything(self, tmp_path: Path) -> None:
        """After a restored backup, numbers mean something else."""
        with closing(open_gridweave(tmp_path / "a")) as database, closing(SqliteWorkloads(database)) as store:
            cursor = store.changes("").cursor
        with closing(open_gridweave(tmp_path / "b")) as database, closing(SqliteWorkloads(database)) as store:
            made = store.create(a_job())
            found = store.changes(cursor)
            assert ((made,), True) == (found.jobs, found.whole)


class TestKubeChanges(ChangesContract, SharedChangesContract):
    @pytest.fixture
    def address(self, admin: Path, namespace: str) -> str:
        return f"kube:{namespace}:{admin}"

    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[KubeWorkloads]:
        with closing(KubeWorkloads(client)) as made:
            yield made

    def test_closing_ends_a_wait(self, client: KubeClient) -> None:
        """A process that was told to end must not hang in a long wait."""
        store = KubeWorkloads(client)
        cursor = store.changes("").cursor
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.changes, cursor, LONG)
            store.close()
            with pytest.raises(Unavailable):
                waiting.result()


class TestRemoteChanges(ChangesContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[RemoteWorkloads]:
        with line_to(client) as line:
            yield RemoteWorkloads(line)
