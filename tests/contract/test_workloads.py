"""What every store of jobs keeps to, whatever it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from adapters.remote.stores import RemoteWorkloads
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from ports.errors import AlreadyExists, Conflict, IllegalTransition, Invalid
from ports.units import Mib
from ports.workloads import Job, JobFilter, Phase, Workloads
from tests.contract import races
from tests.contract.races import in_processes, in_threads
from tests.contract.samples import a_full_job, a_job, counted, to_phase
from tests.kube.control import line_to
from tests.memory.workloads import MemoryWorkloads


def keys(jobs: tuple[Job, ...]) -> list[str]:
    return [job.id for job in jobs]


def pages(store: Workloads, which: JobFilter = JobFilter(), limit: int = 2, newest_first: bool = False) -> list[str]:
    """All ids, page by page."""
    found, cursor = [], ""
    while True:
        page = store.list(which, cursor, limit, newest_first)
        assert len(page.jobs) <= limit
        found += keys(page.jobs)
        cursor = page.cursor
        if not cursor:
            return found


class WorkloadsContract:
    """Give a fixture `store`: an empty one."""

    # ------------------------------------------------------------ one object

    def test_a_created_job_is_read_back_with_every_field(self, store: Workloads) -> None:
        """What the user asked for, and what he owes, is nowhere else."""
        made = store.create(a_full_job())
        assert made.version
        assert evolve(a_full_job(), uid=made.uid) == evolve(made, version="")
        assert made == store.get("job-1")

    def test_a_peek_gives_the_newest_or_nothing(self, store: Workloads) -> None:
        """A status that is answered at once is never older than what its reader has been told before."""
        made = store.create(a_full_job())
        assert store.peek("job-1") in (made, None)
        newer = store.replace(counted(made))
        assert store.peek("job-1") in (newer, None)
        store.delete(newer)
        assert [None] * 3 == [store.peek(key) for key in ("job-1", "", "\udc80")]

    def test_an_unknown_id_gives_nothing(self, store: Workloads) -> None:
        """An absent job is an answer, whatever somebody typed as its id."""
        assert [None] * 4 == [store.get(key) for key in ("job-1", "", "../job-1", "🦉" * 100)]

    @pytest.mark.parametrize("wrong", ["job-1/2", "a/b/3", "/1", "a/٣"])
    def test_an_id_that_reads_as_another_jobs_run_is_refused(self, store: Workloads, wrong: str) -> None:
        """The first run of `job-1/2` would be replica 1 of attempt 2 of `job-1`, for ledger, agents and bills alike."""
        with pytest.raises(Invalid) as caught:
            store.create(a_job(wrong))
        assert ("id", wrong) == (caught.value.field, caught.value.value)
        assert store.get(wrong) is None
        assert "a/1b" == store.create(a_job("a/1b")).id

    def test_an_id_is_taken_once(self, store: Workloads) -> None:
        """The create conflict is the lock of idempotent submits: the first body stays."""
        first = store.create(a_job(user="alice"))
        with pytest.raises(AlreadyExists):
            store.create(a_job(user="mallory"))
        assert first == store.get("job-1")

    def test_a_replace_gives_a_new_version(self, store: Workloads) -> None:
        """A writer goes on from what it was given, without reading again."""
        made = store.create(a_job())
        first = store.replace(counted(made))
        second = store.replace(counted(first))
        assert 3 == len({made.version, first.version, second.version})
        assert second == store.get("job-1")
        assert 2 == second.status.position

    def test_a_stale_replace_is_a_conflict(self, store: Workloads) -> None:
        """Two who decided on the same reading: the later one must decide anew."""
        made = store.create(a_job())
        winner = store.replace(counted(made))
        with pytest.raises(Conflict):
            store.replace(to_phase(made, Phase.ALLOCATED))
        assert winner == store.get("job-1")

    def test_a_replace_of_what_is_gone_is_a_conflict(self, store: Workloads) -> None:
        """A deleted job must not come back by a late writer."""
        made = store.create(a_job())
        store.delete(made)
        with pytest.raises(Conflict):
            store.replace(counted(made))
        with pytest.raises(Conflict):
            store.replace(a_job("never"))
        assert store.get("job-1") is None

    @pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.COMPLETED, Phase.CANCELLED])
    def test_a_write_along_no_edge_is_refused(self, store: Workloads, phase: Phase) -> None:
        """The table of phases is held by the store too, so that a bug in one writer can't corrupt a job."""
        made = store.create(a_job())
        with pytest.raises(IllegalTransition):
            store.replace(to_phase(made, phase))
        assert made == store.get("job-1")

    def test_a_spec_never_changes(self, store: Workloads) -> None:
        """What was quoted and held is what is run."""
        made = store.create(a_job())
        with pytest.raises(IllegalTransition):
            store.replace(evolve(made, spec=evolve(made.spec, ask=evolve(made.spec.ask, mib=Mib(1)))))
        assert made == store.get("job-1")

    def test_only_the_version_that_was_read_is_deleted(self, store: Workloads) -> None:
        """A refused submit deletes its own object, never one that has moved on."""
        made = store.create(a_job())
        newer = store.replace(counted(made))
        with pytest.raises(Conflict):
            store.delete(made)
        assert newer == store.get("job-1")
        store.delete(newer)
        assert store.get("job-1") is None
        with pytest.raises(Conflict):
            store.delete(newer)

    def test_a_version_never_comes_back(self, store: Workloads) -> None:
        """Else a writer of the deleted object could overwrite the new one of the same id."""
        old = store.create(a_job())
        store.delete(old)
        new = store.create(a_job())
        assert old.version != new.version
        with pytest.raises(Conflict):
            store.replace(counted(old))

    # ------------------------------------------------------------ lists

    def test_a_list_is_by_creation_and_id(self, store: Workloads) -> None:
        """First come first served needs one order that everybody sees."""
        for key, at in (("c", 1), ("a", 2), ("b", 2), ("d", 0)):
            store.create(a_job(key, at=at))
        assert ["d", "c", "a", "b"] == keys(store.list().jobs)
        assert ["b", "a", "c", "d"] == keys(store.list(newest_first=True).jobs)

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("which", [JobFilter(), JobFilter(phases=frozenset({Phase.PENDING, Phase.CLOSING}))])
    def test_pages_give_each_job_once(self, store: Workloads, newest_first: bool, which: JobFilter) -> None:
        """A page boundary between jobs of the same moment must neither skip nor repeat one."""
        made = [store.create(a_job(f"job-{number}", at=number // 3)) for number in range(7)]
        store.replace(to_phase(made[3], Phase.CLOSING))
        expected = sorted((f"job-{number}" for number in range(7)), reverse=newest_first)
        assert [expected] * 4 == [pages(store, which, limit, newest_first) for limit in (1, 2, 3, 7)]

    def test_a_page_goes_on_where_it_ended_whatever_comes_or_goes(self, store: Workloads) -> None:
        """A user who pages through a busy list misses no job that was there all the time."""
        made = [store.create(a_job(f"job-{number}", at=number)) for number in range(4)]
        first = store.list(limit=2)
        store.delete(made[0])
        store.delete(made[1])
        store.create(a_job("earlier", at=-5))
        assert ["job-2", "job-3"] == keys(store.list(cursor=first.cursor, limit=2).jobs)

    def test_the_last_page_has_no_cursor(self, store: Workloads) -> None:
        """A client stops by it."""
        store.create(a_job())
        assert "" == store.list(limit=1).cursor
        assert "" == store.list(JobFilter(user="nobody")).cursor

    def test_each_filter_narrows(self, store: Workloads) -> None:
        """A user's list is his alone, and the scheduler reads only what still lives."""
        store.create(a_job("a", user="alice", name="x", labels={"team": "red", "tier": "1"}))
        store.create(a_job("b", user="alice", name="y", labels={"team": "red"}))
        store.create(a_job("c", user="bob", name="x", labels={"team": "blue", "tier": "1"}))
        allocated = store.replace(to_phase(store.create(a_job("d", user="bob", name="x")), Phase.ALLOCATED))
        store.replace(to_phase(allocated, Phase.RUNNING))
        pending, running_ = frozenset({Phase.PENDING}), frozenset({Phase.RUNNING})
        expected = {
            "ab": JobFilter(user="alice"),
            "": JobFilter(user=""),
            "acd": JobFilter(name="x"),
            "abc": JobFilter(phases=pending),
            "d": JobFilter(phases=running_),
            "abcd": JobFilter(phases=pending | running_),
            "ac": JobFilter(labels={"tier": "1"}),
            "a": JobFilter(labels={"tier": "1", "team": "red"}),
            "c": JobFilter(user="bob", name="x", phases=pending, labels={"team": "blue"}),
        }
        assert {found: found for found in expected} == {found: "".join(keys(store.list(which).jobs)) for found, which in expected.items()}

    def test_a_filter_follows_a_deletion(self, store: Workloads) -> None:
        """Labels of a deleted job must not stick to a later one of its id."""
        store.delete(store.create(a_job(labels={"team": "red"})))
        store.create(a_job(labels={"team": "blue"}))
        assert [] == keys(store.list(JobFilter(labels={"team": "red"})).jobs)
        assert ["job-1"] == keys(store.list(JobFilter(labels={"team": "blue"})).jobs)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_below_one_is_refused(self, store: Workloads, limit: int) -> None:
        """A page that can't move on would be asked for for ever."""
        with pytest.raises(Invalid, match="limit"):
            store.list(limit=limit)

    @pytest.mark.parametrize(
        "cursor", ["x", "🦉", "W10", "bnVsbA", "%00", "a" * 500, "WzEsMiwzXQ", "WyJhIiw5OTk5OTk5OTk5OTk5OTk5OTk5OTk5LCIiXQ"]
    )
    def test_a_cursor_that_is_none_is_refused(self, store: Workloads, cursor: str) -> None:
        """It comes from outside: it must be the caller's error, never ours."""
        with pytest.raises(Invalid, match=r"."):
            store.list(cursor=cursor)

    def test_a_cursor_of_the_other_order_is_refused(self, store: Workloads) -> None:
        """It would give a page that looks right and is not."""
        store.create(a_job("a"))
        store.create(a_job("b"))
        cursor = store.list(limit=1).cursor
        with pytest.raises(Invalid, match="cursor"):
            store.list(cursor=cursor, limit=1, newest_first=True)

    # ------------------------------------------------------------ many at once

    def test_of_threads_that_replace_one_version_one_wins(self, store: Workloads) -> None:
        """A GPU is booked for a job once, whoever raced."""
        version = store.create(a_job()).version
        answers = in_threads(lambda _: races.replace_once(store, version), 8)
        assert 1 == sum(answer != "lost" for answer in answers)
        stored = store.get("job-1")
        assert stored is not None
        assert 1 == stored.status.position

    def test_of_threads_that_create_one_id_one_wins(self, store: Workloads) -> None:
        """The same idempotency key, sent twice at once, is one job."""
        answers = in_threads(lambda number: races.create(store, f"user-{number}"), 8)
        assert 1 == sum(answer != "lost" for answer in answers)

    def test_no_update_of_threads_is_lost(self, store: Workloads) -> None:
        """Who gets a conflict and decides anew gets there in the end."""
        store.create(a_job())
        in_threads(lambda _: races.count(store, "20"), 4)
        stored = store.get("job-1")
        assert stored is not None
        assert 80 == stored.status.position


class SharedWorkloadsContract:
    """For stores that processes share. Give also a fixture `address`, which `tests.contract.races` can open."""

    def test_of_processes_that_replace_one_version_one_wins(self, store: Workloads, address: str) -> None:
        """Gateways and scheduler are processes: their races are decided by the store alone."""
        version = store.create(a_job()).version
        answers = in_processes("replace_once", address, [version] * 3)
        stored = store.get("job-1")
        assert stored is not None
        assert 1 == stored.status.position
        assert [f"won {stored.version}"] == [answer for answer in answers if answer.startswith("won")]

    def test_of_processes_that_create_one_id_one_wins(self, store: Workloads, address: str) -> None:
        """A client that timed out and asked another gateway has one job."""
        answers = in_processes("create", address, ["alice", "bob", "carol"])
        stored = store.get("job-1")
        assert stored is not None
        assert f"won {stored.version}" == answers[["alice", "bob", "carol"].index(stored.spec.user)]
        assert ["lost", "lost"] == sorted(answers)[:2]

    def test_no_update_of_processes_is_lost(self, store: Workloads, address: str) -> None:
        """Neither by a lock that was given up, nor by a read that was stale."""
        store.create(a_job())
        assert ["done"] * 3 == in_processes("count", address, ["20"] * 3)
        stored = store.get("job-1")
        assert stored is not None
        assert 60 == stored.status.position


class TestMemoryWorkloads(WorkloadsContract):
    @pytest.fixture
    def store(self) -> MemoryWorkloads:
        return MemoryWorkloads()


class TestSqliteWorkloads(WorkloadsContract, SharedWorkloadsContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}"

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteWorkloads]:
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as made:
            yield made

    def test_a_peek_sees_what_another_process_has_written(self, store: SqliteWorkloads, tmp_path: Path) -> None:
        """Two gateways serve one database: what was kept of an older write is not given for the newer one."""
        made = store.create(a_job())
        assert made == store.peek("job-1")
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as other:
            newer = other.replace(counted(made))
            assert store.peek("job-1") is None
            assert newer == store.get("job-1") == store.peek("job-1")
            other.delete(newer)
        assert store.peek("job-1") is None

    def test_a_peek_waits_for_nobody(self, store: SqliteWorkloads) -> None:
        """Neither for who is writing, nor for what was closed."""
        made = store.create(a_job())
        with store._database.write() as db:
            db.execute("DELETE FROM jobs")
            assert made == store.peek("job-1")
        assert store.peek("job-1") is None
        store.close()
        assert store.peek("job-1") is None

    def test_what_was_stored_is_there_after_a_restart(self, tmp_path: Path) -> None:
        """State outlives every process of ours."""
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as store:
            made = store.create(a_full_job())
        with closing(open_gridweave(tmp_path)) as database, closing(SqliteWorkloads(database)) as store:
            assert made == store.get("job-1")
            assert made.version != store.create(a_job("job-2")).version


class TestKubeWorkloads(WorkloadsContract, SharedWorkloadsContract):
    @pytest.fixture
    def address(self, admin: Path, namespace: str) -> str:
        return f"kube:{namespace}:{admin}"

    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[KubeWorkloads]:
        with closing(KubeWorkloads(client, page=3)) as made:
            yield made


class TestRemoteWorkloads(WorkloadsContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def store(self, client: KubeClient) -> Iterator[RemoteWorkloads]:
        with line_to(client, page=3) as line:
            yield RemoteWorkloads(line)
