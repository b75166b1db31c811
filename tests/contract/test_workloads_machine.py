"""Stores of jobs in lock-step with the plain one in memory: every call has the same outcome on each, whatever came before.

SQLite alone, quickly and often; then SQLite, Kubernetes and the control service side by side, over one long history.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from attrs import define, evolve, field
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
from ports.workloads import Job, JobFilter, Page, Phase, Workloads
from tests.contract.samples import a_job, counted, to_phase
from tests.kube.control import line_to
from tests.kube.fixtures import fresh_namespace
from tests.memory.workloads import MemoryWorkloads

IDS = st.sampled_from(["a", "b", "x-y", "Ä/b 🦉"])
USERS = st.sampled_from(["alice", "bob"])
LABELS = st.dictionaries(st.sampled_from(["team", "tier"]), st.sampled_from(["", "x", "y"]))
FILTERS = st.builds(JobFilter, st.none() | USERS, st.frozensets(st.sampled_from(Phase), max_size=3), LABELS)

# Minimising a history over a network takes minutes; the seed that is printed replays it.
OVER_A_NETWORK = settings(stateful_step_count=200, phases=[Step.explicit, Step.reuse, Step.generate])

Group = tuple[Job, ...]  # the same job, as the model and as each store gave it


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


@define
class Mirror:
    """What somebody knows who follows one store."""

    cursor: str = ""
    jobs: dict[str, Job] = field(factory=dict)

    def follow(self, store: Workloads) -> None:
        """One look. It may stop anywhere; when nothing more comes, it equals the store."""
        found = store.changes(self.cursor)
        assert not {job.id for job in found.jobs} & set(found.deleted)
        if found.whole:
            self.jobs.clear()
        for key in found.deleted:
            self.jobs.pop(key, None)
        self.jobs.update((job.id, job) for job in found.jobs)
        if not self.cursor:
            self.jobs = {job.id: job for job in store.list().jobs}
        elif not (found.jobs or found.deleted or found.whole):
            assert {job.id: job for job in store.list().jobs} == self.jobs
        self.cursor = found.cursor


class WorkloadsMachine(RuleBasedStateMachine):
    """Subclasses give `self.stores`, empty ones, in their `__init__`."""

    stores: tuple[Workloads, ...] = ()
    groups = Bundle("groups")

    def __init__(self) -> None:
        super().__init__()
        self.model = MemoryWorkloads()
        self.uids = 0
        self.mirrors: list[Mirror] = []

    def alike(self, call: Callable[[Workloads, int], object]) -> tuple[object, ...]:
        """The call's outcome on each, after they were found to be alike. The number is 0 for the model, then counts the stores."""
        found = tuple(outcome(lambda each=each, n=n: call(each, n)) for n, each in enumerate((self.model, *self.stores)))  # type: ignore[misc]
        assert [plain(found[0])] * len(self.stores) == [plain(each) for each in found[1:]]
        return found

    @rule(target=groups, key=IDS, user=USERS, labels=LABELS, at=st.integers(0, 3))
    def create(self, key: str, user: str, labels: dict[str, str], at: int) -> object:
        self.uids += 1
        job = evolve(a_job(key, user=user, labels=labels, at=at), uid=f"uid-{self.uids}")
        made = self.alike(lambda store, _: store.create(job))
        return made if isinstance(made[0], Job) else (job,) * len(made)

    @rule(
        target=groups, group=groups, change=st.sampled_from([counted, *(lambda job, phase=phase: to_phase(job, phase) for phase in Phase)])
    )
    def replace(self, group: Group, change: Callable[[Job], Job]) -> object:
        made = self.alike(lambda store, which: store.replace(change(group[which])))
        return made if isinstance(made[0], Job) else group

    @rule(group=groups)
    def delete(self, group: Group) -> None:
        self.alike(lambda store, which: store.delete(group[which]))

    @rule(key=IDS)
    def get(self, key: str) -> None:
        self.alike(lambda store, _: store.get(key))

    @rule(which=FILTERS, limit=st.integers(1, 3), newest_first=st.booleans())
    def read_all_pages(self, which: JobFilter, limit: int, newest_first: bool) -> None:
        self.alike(lambda store, _: pages(store, which, limit, newest_first))

    @rule(looks=st.integers(1, 5))
    def follow(self, looks: int) -> None:
        self.mirrors = self.mirrors or [Mirror() for _ in self.stores]
        for store, mirror in zip(self.stores, self.mirrors, strict=True):
            for _ in range(looks):
                mirror.follow(store)

    @invariant()
    def all_hold_the_same(self) -> None:
        self.alike(lambda store, _: store.list())


class SqliteMachine(WorkloadsMachine):
    """With bounds so small that changes come in parts and tombstones are pruned."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.open()

    def open(self) -> None:
        self.database = open_gridweave(Path(self.folder.name))
        self.sqlite = SqliteWorkloads(self.database, tombstones=3, at_once=2)
        self.stores = (self.sqlite,)

    def shut(self) -> None:
        self.sqlite.close()
        self.database.close()

    @rule()
    def restart(self) -> None:
        self.shut()
        self.open()

    def teardown(self) -> None:
        self.shut()
        self.folder.cleanup()


def test_sqlite_is_in_lock_step_with_the_model() -> None:
    """Combinations that nobody thought of: re-created ids, stale writers, restarts, mirrors that fall behind."""
    run_state_machine_as_test(SqliteMachine, settings=settings(max_examples=settings().max_examples // 4, stateful_step_count=30))


PAGE, KEPT, AT_ONCE = 2, 3, 2  # lists have several pages, changes come in parts, readers fall behind


class ThreeMachine(WorkloadsMachine):
    """SQLite, Kubernetes and a control service; each may begin anew, and watches break."""

    admin: Path
    core_api: CoreV1Api

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.direct, self.proxied = (connect(fresh_namespace(self.core_api), str(self.admin)) for _ in range(2))
        self.open()

    def open(self) -> None:
        self.opened = ExitStack()
        database = self.opened.enter_context(closing(open_gridweave(Path(self.folder.name))))
        sqlite = self.opened.enter_context(closing(SqliteWorkloads(database, tombstones=3, at_once=2)))
        self.kube = self.opened.enter_context(closing(KubeWorkloads(self.direct, PAGE, KEPT, AT_ONCE)))
        self.stores = (
            sqlite,
            self.kube,
            RemoteWorkloads(self.opened.enter_context(line_to(self.proxied, page=PAGE, kept=KEPT, at_once=AT_ONCE))),
        )

    @rule()
    def restart(self) -> None:
        self.opened.close()
        self.open()

    @rule()
    def drop_the_connection(self) -> None:
        self.kube.feed.drop()

    def teardown(self) -> None:
        self.opened.close()
        self.direct.close()
        self.proxied.close()
        self.folder.cleanup()


@pytest.mark.parametrize("histories", [4, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(0)])])
def test_three_stores_are_in_lock_step(histories: int, admin: Path, core_api: CoreV1Api) -> None:
    """A gateway behind another store must not behave in another way, however long it has been used."""
    machine = type("ThreeMachine", (ThreeMachine,), {"admin": admin, "core_api": core_api})
    run_state_machine_as_test(machine, settings=settings(OVER_A_NETWORK, max_examples=histories))
