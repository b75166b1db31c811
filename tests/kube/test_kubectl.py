"""kubectl on our kinds behaves as its users expect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.workloads import KubeWorkloads
from ports import lifecycle
from ports.endpoint_control import EndpointControl
from ports.units import Credits, Instant, Mib
from ports.workloads import FUNDED, ConditionStatus, Phase, Slot
from tests.contract.samples import a_full_job, a_job
from tests.kube.plane import MANIFESTS, Plane


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


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED])
def test_wait_waits_for_a_phase(plane: Plane, client: KubeClient, store: KubeWorkloads, phase: Phase) -> None:
    """`kubectl wait --for=condition=Completed` is what every script about Jobs says."""
    job = store.create(a_job("job-1"))
    job = store.replace(evolve(job, status=lifecycle.allocated(job, (Slot("n1", 0, Mib(1)),), 1, lifecycle.FREE, Instant(1_000))))
    assert "condition met" in said(plane, client, "wait", "--for=condition=Allocated", "gwj/job-1", "--timeout=60s")
    job = store.replace(evolve(job, status=lifecycle.running(job.status, Instant(2_000))))
    assert "condition met" in said(plane, client, "wait", "--for=condition=Running", "gwj/job-1", "--timeout=60s")
    job = store.replace(evolve(job, status=lifecycle.closing(job.status, phase, "Because")))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(said, plane, client, "wait", f"--for=condition={phase}", "gwj/job-1", "--timeout=60s")
        job = store.replace(evolve(job, status=lifecycle.closed(job.status, Credits(1), Instant(3_000), True)))
        assert "condition met" in waiting.result()
    assert job == store.get("job-1")  # and none of it is read back
    found = json.loads(said(plane, client, "get", "gwj", "job-1", "-o", "json"))["status"]["conditions"]
    times = {each["type"]: each["lastTransitionTime"][17:19] for each in found}
    assert ("01", "03") == (times["Allocated"], times[str(phase)])


def test_wait_waits_for_an_endpoint(plane: Plane, client: KubeClient) -> None:
    """Likewise."""
    control = EndpointControl(KubeEndpoints(client), lambda: Instant(1_000))
    control.create_endpoint("e1", "ada", model="m", vram="1GB")
    control.set_endpoint_deploying("e1")
    assert "condition met" in said(plane, client, "wait", "--for=condition=Deploying", "gwe/e1", "--timeout=60s")
    running = control.set_endpoint_running("e1", url="http://e1")
    assert "condition met" in said(plane, client, "wait", "--for=condition=Running", "gwe/e1", "--timeout=60s")
    assert running == control.get_endpoint("e1")


def test_explain_has_a_word_for_every_field(plane: Plane, client: KubeClient) -> None:
    """The schema is its own manual: kubectl explain --recursive leaves nobody guessing."""
    for path in sorted(MANIFESTS.glob("*-crd.yaml")):
        made = plane.kubectl("get", "-f", str(path), "-o", "json")
        schema = json.loads(made.stdout)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert [] == [field for field in wordless(schema) if field not in ("apiVersion", "kind", "metadata")], path.name


def wordless(schema: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, each in schema.get("properties", {}).items():
        if not each.get("description"):
            yield f"{above}{name}"
        yield from wordless(each, f"{above}{name}.")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from wordless(inner, above)


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
