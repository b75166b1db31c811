"""A store of jobs in lock-step with the plain one in memory: every call has the same outcome, whatever came before.

A later store joins by a subclass that opens it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import Phase as Step
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from kubernetes.client import CoreV1Api

from adapters.k8s.client import connect
from adapters.k8s.workloads import KubeWorkloads
from adapters.remote.stores import RemoteWorkloads
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from ports.errors import GridweaveError
from ports.workloads import Changes, Job, JobFilter, Page, Phase, Workloads
from tests.contract.samples import a_job, counted, to_phase
from tests.kube.control import line_to
from tests.kube.fixtures import fresh_namespace
from tests.memory.workloads import MemoryWorkloads

IDS = st.sampled_from(["a", "b", "x-y", "Ä/b 🦉"])
USERS = st.sampled_from(["alice", "bob"])
LABELS = st.dictionaries(st.sampled_from(["team", "tier"]), st.sampled_from(["", "x", "y"]))
FILTERS = st.builds(JobFilter, st.none() | USERS, st.frozensets(st.sampled_from(Phase), max_size=3), LABELS)

# Minimising a history over a network takes minutes; the seed that is printed replays it.
OVER_A_NETWORK = settings(stateful_step_count=30, phases=[Step.explicit, Step.reuse, Step.generate])

Pair = tuple[Job, Job]  # the same job, as the model and as the store gave it


def outcome(call: Callable[[], object]) -> object:
    """What a call gave, or the class of its refusal."""
    try:
        return call()
    except GridweaveError as error:
        return type(error)


def plain(found: object) -> object:
    """Without what each store makes in its own way."""
    if isinstance(found, Job):
        return evolve(found, version="", uid="")
    if isinstance(found, Page):
        return tuple(plain(job) for job in found.jobs), bool(found.cursor)
    return found


def pages(store: Workloads, which: JobFilter, limit: int, newest_first: bool) -> list[object]:
    """Each page, up to the one without a cursor."""
    found, cursor = [], ""
    while True:
        page = store.list(which, cursor, limit, newest_first)
        found.append(plain(page))
        cursor = page.cursor
        if not cursor:
            return found


class WorkloadsMachine(RuleBasedStateMachine):
    """Subclasses give `self.store`, an empty one, in their `__init__`."""

    store: Workloads
    pairs = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.model = MemoryWorkloads()
        self.uids = 0
        self.mirror: dict[str, Job] = {}
        self.cursor = ""

    def both(self, call: Callable[[Workloads, int], object]) -> tuple[object, object]:
        """The call's outcome on both, after they were found to be alike. The number is 0 for the model, 1 for the store."""
        expected, found = outcome(lambda: call(self.model, 0)), outcome(lambda: call(self.store, 1))
        assert plain(expected) == plain(found)
        return expected, found

    @rule(target=pairs, key=IDS, user=USERS, labels=LABELS, at=st.integers(0, 3))
    def create(self, key: str, user: str, labels: dict[str, str], at: int) -> object:
        self.uids += 1
        job = evolve(a_job(key, user=user, labels=labels, at=at), uid=f"uid-{self.uids}")
        made = self.both(lambda store, _: store.create(job))
        return made if isinstance(made[0], Job) else (job, job)

    @rule(target=pairs, pair=pairs, change=st.sampled_from([counted, *(lambda job, phase=phase: to_phase(job, phase) for phase in Phase)]))
    def replace(self, pair: Pair, change: Callable[[Job], Job]) -> object:
        made = self.both(lambda store, which: store.replace(change(pair[which])))
        return made if isinstance(made[0], Job) else pair

    @rule(pair=pairs)
    def delete(self, pair: Pair) -> None:
        self.both(lambda store, which: store.delete(pair[which]))

    @rule(key=IDS)
    def get(self, key: str) -> None:
        self.both(lambda store, _: store.get(key))

    @rule(which=FILTERS, limit=st.integers(1, 3), newest_first=st.booleans())
    def read_all_pages(self, which: JobFilter, limit: int, newest_first: bool) -> None:
        self.both(lambda store, _: pages(store, which, limit, newest_first))

    @rule(parts=st.integers(1, 5))
    def follow(self, parts: int) -> None:
        """A mirror may stop anywhere; when nothing more comes, it equals the store."""
        for _ in range(parts):
            found = self.store.changes(self.cursor)
            self.fold(found)
            if self.cursor and not (found.jobs or found.deleted or found.whole):
                assert {job.id: job for job in self.store.list().jobs} == self.mirror
            if not self.cursor:
                self.mirror = {job.id: job for job in self.store.list().jobs}
            self.cursor = found.cursor

    def fold(self, found: Changes) -> None:
        assert not {job.id for job in found.jobs} & set(found.deleted)
        if found.whole:
            self.mirror.clear()
        for key in found.deleted:
            self.mirror.pop(key, None)
        self.mirror.update((job.id, job) for job in found.jobs)

    @invariant()
    def both_hold_the_same(self) -> None:
        assert plain(self.model.list()) == plain(self.store.list())


class SqliteMachine(WorkloadsMachine):
    """With bounds so small that changes come in parts and tombstones are pruned."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.open()

    def open(self) -> None:
        self.database = open_gridweave(Path(self.folder.name))
        self.store: SqliteWorkloads = SqliteWorkloads(self.database, tombstones=3, at_once=2)

    def shut(self) -> None:
        self.store.close()
        self.database.close()

    @rule()
    def restart(self) -> None:
        self.shut()
        self.open()

    def teardown(self) -> None:
        self.shut()
        self.folder.cleanup()


@pytest.mark.parametrize("machine", [SqliteMachine])
def test_a_store_is_in_lock_step_with_the_model(machine: type[WorkloadsMachine]) -> None:
    """Combinations that nobody thought of: re-created ids, stale writers, restarts, mirrors that fall behind."""
    run_state_machine_as_test(machine, settings=settings(max_examples=settings().max_examples // 4, stateful_step_count=30))


class KubeMachine(WorkloadsMachine):
    """With bounds so small that lists have several pages, changes come in parts, and readers fall behind."""

    admin: Path
    core_api: CoreV1Api

    def __init__(self) -> None:
        super().__init__()
        self.client = connect(fresh_namespace(self.core_api), str(self.admin))
        self.open()

    def open(self) -> None:
        self.store: KubeWorkloads = KubeWorkloads(self.client, page=2, kept=3, at_once=2)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def drop_the_connection(self) -> None:
        self.store.feed.drop()

    def teardown(self) -> None:
        self.store.close()
        self.client.close()


class RemoteMachine(WorkloadsMachine):
    """Through a control service with such bounds, which is restarted too."""

    admin: Path
    core_api: CoreV1Api

    def __init__(self) -> None:
        super().__init__()
        self.client = connect(fresh_namespace(self.core_api), str(self.admin))
        self.open()

    def open(self) -> None:
        self.opened = ExitStack()
        self.store: RemoteWorkloads = RemoteWorkloads(self.opened.enter_context(line_to(self.client, page=2, kept=3, at_once=2)))

    @rule()
    def restart(self) -> None:
        self.opened.close()
        self.open()

    def teardown(self) -> None:
        self.opened.close()
        self.client.close()


@pytest.mark.parametrize("kind", [KubeMachine, RemoteMachine])
def test_kubernetes_is_in_lock_step_with_the_model(kind: type[WorkloadsMachine], admin: Path, core_api: CoreV1Api) -> None:
    """The same histories, with watches that break and processes that begin anew."""
    machine = type(kind.__name__, (kind,), {"admin": admin, "core_api": core_api})
    run_state_machine_as_test(machine, settings=settings(OVER_A_NETWORK, max_examples=settings().max_examples // 4))
