"""One object that somebody has marked by hand as a newer release's: it is skipped, told once, never written over; others are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import structlog
from attrs import evolve

from adapters.k8s import nodes as kube_nodes
from adapters.k8s.client import KubeClient
from adapters.k8s.endpoints import PLURAL as ENDPOINTS
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.objects import Objects
from adapters.k8s.workloads import PLURAL as JOBS
from adapters.k8s.workloads import KubeWorkloads
from adapters.remote.stores import RemoteNodes, RemoteWorkloads
from ports.endpoints import Endpoint, EndpointMode, EndpointSpec
from ports.errors import Conflict, Unreadable
from ports.nodes import NodeRecord, NodeRecords, NodeSpec, NodeState, NodeStatus
from ports.units import Instant, Mib, Span
from ports.workloads import Ask, Workloads
from tests.contract.samples import a_job, counted
from tests.kube.control import line_to


class Behind:
    """The stores, of which the workloads remember at most one change; objects: as kubectl sees them."""

    def __init__(self, workloads: Workloads, nodes: NodeRecords, client: KubeClient) -> None:
        self.workloads, self.nodes = workloads, nodes
        self.jobs, self.records = Objects(client, JOBS), Objects(client, kube_nodes.PLURAL)


@pytest.fixture(params=["direct", "proxied"])
def behind(request: pytest.FixtureRequest, client: KubeClient) -> Iterator[Behind]:
    with ExitStack() as opened:
        if request.param == "direct":
            yield Behind(opened.enter_context(closing(KubeWorkloads(client, kept=1))), KubeNodes(client), client)
        else:
            line = opened.enter_context(line_to(client, kept=1))
            yield Behind(RemoteWorkloads(line), RemoteNodes(line), client)


def mark(objects: Objects, name: str, half: str = "status", version: int = 99) -> dict[str, Any]:
    form = objects.get(name, name)
    assert form is not None
    put = objects.replace_status if half == "status" else objects.replace
    return put(name, {**form, half: {**form[half], "schemaVersion": version}})


def test_the_other_jobs_are_read(behind: Behind) -> None:
    """In lists, in changes and where a reader has to begin anew; what can't be read is named, for it is not gone."""
    store = behind.workloads
    first, broken, last = (store.replace(counted(store.create(a_job(f"job-{number}", at=number)))) for number in range(3))
    cursor = store.changes("").cursor
    mark(behind.jobs, broken.id)
    page = store.list()
    assert ([first.id, last.id], (broken.id,)) == ([job.id for job in page.jobs], page.unreadable)
    changes = store.changes(cursor, Span(5_000))
    assert ((), (), (broken.id,)) == (changes.jobs, changes.deleted, changes.unreadable)
    for job in (first, last):
        store.replace(counted(job))
    whole = store.changes(cursor, Span(5_000))
    assert whole.whole
    assert ({first.id, last.id}, (broken.id,)) == ({job.id for job in whole.jobs}, whole.unreadable)
    with pytest.raises(Unreadable, match="newer release"):
        store.get(broken.id)
    mark(behind.jobs, broken.id, version=1)
    assert broken.spec == (store.get(broken.id) or first).spec
    assert () == store.list().unreadable


def test_a_job_is_not_written_over(behind: Behind) -> None:
    """Whoever read it before it was marked meets another version."""
    store = behind.workloads
    job = store.replace(counted(store.create(a_job("job-1"))))
    marked = mark(behind.jobs, job.id)
    with pytest.raises((Conflict, Unreadable)):
        store.replace(counted(job))
    assert marked == behind.jobs.get(job.id, job.id)


@pytest.mark.parametrize("half", ["spec", "status"])
def test_a_node_is_there_and_gets_no_work(behind: Behind, half: str) -> None:
    """Left out, it would be a new machine of whoever its label names; and neither half of its record is written over."""
    store = behind.nodes
    other = store.put_spec(NodeRecord("n2"))
    made = store.put_status(evolve(store.put_spec(NodeRecord("n1", NodeSpec("provider:acme"))), status=NodeStatus(NodeState.READY)))
    marked = mark(behind.records, "n1", half)
    broken, same = store.list()
    assert (other, "n1", True) == (same, broken.name, broken.spec.drain)
    assert (NodeState.UNFIT, broken.unreadable) == (broken.status.state, broken.status.reason)
    assert broken == store.get("n1")
    for write in (store.put_spec, store.put_status):
        for record in (broken, evolve(broken, spec=NodeSpec("org"))):
            with pytest.raises(Unreadable):
                write(record)
        with pytest.raises(Conflict):
            write(made)
        with pytest.raises(Conflict):
            write(NodeRecord("n1"))
    assert marked == behind.records.get("n1", "n1")


def test_the_other_endpoints_are_read(client: KubeClient) -> None:
    store = KubeEndpoints(client)
    spec = EndpointSpec("ann", "chat", Ask(Mib(1024)), "m", None, EndpointMode.FREE, "free", None, 1, {})
    for name in ("ep-1", "ep-2"):
        store.create(Endpoint(name, name, Instant(0), spec))
    mark(Objects(client, ENDPOINTS), "ep-1", "spec")
    assert ["ep-2"] == [each.id for each in store.list({})]


def test_it_is_told_once_with_its_name(client: KubeClient) -> None:
    """A line for each look would bury every other; after it was mended a new fault is news."""
    with closing(KubeWorkloads(client)) as store, structlog.testing.capture_logs() as said:
        job = store.replace(counted(store.create(a_job("job-1"))))
        objects = Objects(client, JOBS)
        for _ in range(2):
            mark(objects, job.id)
            store.list()
            store.list()
            mark(objects, job.id, version=1)
            store.list()
    told = [(line["kind"], line["object"], "schema 99" in line["why"]) for line in said if "can't be read" in line["event"]]
    assert [("GridweaveJob", "job-1", True)] * 2 == told
