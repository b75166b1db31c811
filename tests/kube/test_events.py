"""What `kubectl describe` tells of a job's life: events by the scheduler, each once, and no flood."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from attrs import evolve
from kubernetes.client import CoreV1Api

from adapters.k8s.client import KubeClient, connect
from adapters.k8s.events import KubeEvents, happenings
from adapters.k8s.workloads import KubeWorkloads
from ports import lifecycle
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import FUNDED, RESULT_STORED, ConditionStatus, Exit, ExitKind, Job, Phase, Slot
from tests.contract.samples import a_job, counted
from tests.kube.plane import MANIFESTS, Plane

SLOTS = (Slot("n1", 0, Mib(8192)), Slot("n1", 3, Mib(8192)))
PRICE = Price(1, (PriceLine("org", Rate(8_000_000)),))
LOOKS = 300  # a tenth of a second apart, for events to be written


def life(store: KubeWorkloads, how: Exit) -> Job:
    """From submitted to settled, as the scheduler writes it."""
    job = store.create(a_job("job-1"))
    job = store.replace(evolve(job, status=lifecycle.allocated(job, SLOTS, 1, PRICE, Instant(1))))
    job = store.replace(evolve(job, status=lifecycle.running(job.status, Instant(2))))
    job = store.replace(evolve(job, status=lifecycle.ended(job, how, Span(12_500), Instant(3))))
    job = store.replace(evolve(job, status=job.status.with_condition(RESULT_STORED, ConditionStatus.TRUE, Instant(4))))
    return store.replace(evolve(job, status=lifecycle.closed(job.status, Credits.parse("2.5"), Instant(5), True)))


def events(plane: Plane, namespace: str, at_least: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(LOOKS):
        found = json.loads(plane.kubectl("get", "events", "-o", "json", namespace=namespace).stdout)["items"]
        if len(found) >= at_least:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} events, not {at_least}: {[each['reason'] for each in found]}")


@pytest.fixture
def scheduler(plane: Plane, core_api: CoreV1Api, namespace: str) -> Iterator[KubeClient]:
    """With the token of the scheduler's ServiceAccount."""
    assert plane.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"), namespace=namespace).returncode == 0
    request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
    token = core_api.create_namespaced_service_account_token("gridweave-scheduler", namespace, request).status.token
    with closing(connect(namespace, str(plane.kubeconfig(token, namespace, "scheduler")))) as made:
        yield made


def test_describe_tells_what_happened(plane: Plane, client: KubeClient, scheduler: KubeClient) -> None:
    """Written by the scheduler's own account, which may do nothing else with events."""
    made = KubeWorkloads(client).create(a_job("job-1"))
    with closing(KubeEvents(scheduler, "scheduler-1", every_s=0)) as told, closing(KubeWorkloads(scheduler, tell=told.tell)) as store:
        job = store.replace(evolve(made, status=lifecycle.allocated(made, SLOTS, 1, PRICE, Instant(1))))
        job = store.replace(evolve(job, status=lifecycle.running(job.status, Instant(2))))
        store.replace(evolve(job, status=lifecycle.ended(job, Exit(ExitKind.RAISED, message="secret"), Span(12_500), Instant(3))))
        events(plane, client.namespace, 3)
    text = plane.kubectl("describe", "gwj", "job-1", namespace=client.namespace).stdout
    shown = text[text.index("Events:") :]
    for expected in ("Placed", "n1:0,3", "Started", "Ended", "after 12.5 s: Raised", "Warning"):
        assert expected in shown
    assert "secret" not in shown


def test_each_step_is_told_once(plane: Plane, client: KubeClient) -> None:
    """However many schedulers tell it, and however often an object is written."""
    with closing(KubeEvents(client, "one", every_s=0)) as one, closing(KubeEvents(client, "two", every_s=0)) as two:

        def tell(was: Job, now: Job) -> None:
            one.tell(was, now)
            two.tell(was, now)

        with closing(KubeWorkloads(client, tell=tell)) as store:
            job = life(store, Exit(ExitKind.RETURNED))
            for _ in range(20):
                job = store.replace(counted(job))
    found = events(plane, client.namespace, 5)
    assert sorted(["Placed", "Started", "Ended", "Charged", "Completed"]) == sorted(each["reason"] for each in found)
    assert {job.uid} == {each["involvedObject"]["uid"] for each in found}
    assert {"Normal"} == {each["type"] for each in found}


def test_too_many_are_left_out_and_hold_nobody_up(client: KubeClient) -> None:
    """A thousand jobs that end at once must not become a thousand writes more for the API server."""
    told = KubeEvents(client, "me", every_s=3600, waiting=10)
    job = a_job("job-1")
    for number in range(50):
        now = evolve(job, id=f"job-{number}", status=lifecycle.allocated(job, SLOTS, 1, PRICE, Instant(1)))
        told.tell(evolve(job, id=now.id), now)
    assert told.left_out >= 38  # ten wait, one is being written, and one may have been
    told.close()


def test_an_api_that_is_away_holds_nobody_up(tmp_path: Any) -> None:
    """An event is for people; nothing depends on one."""
    config = tmp_path / "config"
    nowhere = {"cluster": {"server": "https://127.0.0.1:1"}, "name": "c"}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    form = {"apiVersion": "v1", "kind": "Config", "clusters": [nowhere], "users": [{"name": "u", "user": {"token": "t"}}]}
    config.write_text(json.dumps({**form, "contexts": [context], "current-context": "x"}))
    with closing(connect("ns", str(config))) as client:
        told = KubeEvents(client, "me")
        job = a_job("job-1")
        told.tell(job, evolve(job, status=lifecycle.allocated(job, SLOTS, 1, PRICE, Instant(1))))
        told.close()
        assert 1 == told.left_out


def test_what_is_told_of_money() -> None:
    """A refusal and a debt are warnings; what is not billed is not spoken of."""
    job = a_job("job-1")
    job = evolve(job, status=lifecycle.closing(lifecycle.allocated(job, SLOTS, 1, PRICE, Instant(1)), Phase.FAILED, "MaxRuntime"))
    refused = job.status.with_condition(FUNDED, ConditionStatus.FALSE, Instant(2), "CannotAfford", "a secret of the user")
    free = evolve(job, spec=evolve(job.spec, billed=False))
    for was, status, expected in (
        (job, refused, [("Refused", False)]),
        (job, lifecycle.closed(job.status, Credits(5), Instant(2), True), [("Charged", True), ("Failed", False)]),
        (job, lifecycle.closed(job.status, Credits(5), Instant(2), True, "lower"), [("ChargeRefused", False), ("Failed", False)]),
        (job, lifecycle.in_arrears(job.status, Instant(2)), [("InArrears", False), ("Failed", False)]),
        (free, lifecycle.closed(job.status, Credits(0), Instant(2), False), [("Failed", False)]),
    ):
        found = list(happenings(was, evolve(was, status=status)))
        assert expected == [(each.reason, each.well) for each in found]
        assert not any("secret" in each.note for each in found)
