"""kubectl on our kinds behaves as its users expect."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from ports.units import Instant
from ports.workloads import FUNDED, ConditionStatus
from tests.contract.samples import a_full_job, a_job
from tests.kube.plane import Plane


@pytest.fixture
def store(client: KubeClient) -> Iterator[KubeWorkloads]:
    with closing(KubeWorkloads(client)) as made:
        yield made


def said(plane: Plane, client: KubeClient, *arguments: str) -> str:
    done = plane.kubectl(*arguments, namespace=client.namespace)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_get_tells_the_whole_story(plane: Plane, client: KubeClient, store: KubeWorkloads) -> None:
    """Who, what, in which phase, on which nodes; by short name and by category."""
    store.create(a_full_job("job-1"))
    header, row = said(plane, client, "get", "gridweavejobs").splitlines()
    assert ["NAME", "USER", "JOB", "PHASE", "VRAM", "GPUS", "WHERE", "AGE"] == header.split()
    assert ["job-1", "alice@example.org", "square", "Closing", "4096", "2", "n1:0,3"] == row.split()[:7]
    wide = said(plane, client, "get", "gwj", "-o", "wide")
    assert "Asked" in wide
    assert "job-1" in said(plane, client, "get", "gridweave")


def test_jobs_are_found_by_phase_and_user(plane: Plane, client: KubeClient, store: KubeWorkloads) -> None:
    """By field selectors, on the server."""
    store.create(a_full_job("closing"))
    store.create(a_job("pending", user="bob"))
    for selector, expected in (("status.phase=Closing", "closing"), ("status.phase!=Closing", "pending"), ("spec.user=bob", "pending")):
        assert (
            f"gridweavejob.gridweave.io/{expected}" == said(plane, client, "get", "gwj", "-o", "name", "--field-selector", selector).strip()
        )


def test_wait_waits_for_a_condition(plane: Plane, client: KubeClient, store: KubeWorkloads) -> None:
    """Scripts do so."""
    job = store.create(a_job("job-1"))
    job = store.replace(evolve(job, status=job.status.with_condition(FUNDED, ConditionStatus.UNKNOWN, Instant(1))))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(said, plane, client, "wait", "--for=condition=Funded", "gwj/job-1", "--timeout=60s")
        store.replace(evolve(job, status=job.status.with_condition(FUNDED, ConditionStatus.TRUE, Instant(2), "Held")))
        assert "condition met" in waiting.result()


def test_describe_shows_runs_and_conditions(plane: Plane, client: KubeClient, store: KubeWorkloads) -> None:
    """What a support engineer looks at first."""
    store.create(a_full_job("job-1"))
    text = said(plane, client, "describe", "gwj", "job-1")
    for expected in ("Phase:", "Runs:", "Placement:", "Last Transition Time:", "Held", "alice@example.org"):
        assert expected in text


def test_explain_has_a_word_for_every_part(plane: Plane, client: KubeClient) -> None:
    """The schema is its own manual."""
    for path, expected in (
        ("gwj.spec", "immutable"),
        ("gwj.spec.vram", "MiB"),
        ("gwj.status.runs", "attempt"),
        ("gwn.status", "scheduler"),
    ):
        text = said(plane, client, "explain", path).lower()
        assert expected.lower() in text, path
