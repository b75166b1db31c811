"""What leaves Kubernetes: deleted objects, which wait for no other service; and ended ones, which the reaper archives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from kubernetes.client import CoreV1Api

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from core.arrears import BlobArrears, collect
from core.charges import cost
from core.close import close, settle
from core.history import pages, recall
from core.house import House, Terms
from ports import lifecycle
from ports.credits import ISSUE, Charge, ChargeAnswer, user_account
from ports.errors import Refused, Unavailable
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import FUNDED, RESULT_STORED, ConditionStatus, Exit, ExitKind, Job, JobFilter, Phase, Slot
from tests.canaries import ADMIN_TOKEN
from tests.contract.samples import a_job
from tests.e2e.gateways import ROOT, SOURCES
from tests.kube.plane import MANIFESTS, Plane
from tests.memory.metering import MemoryMetering
from tests.memory.nodes import MemoryNodes

RAN = Span(90_000)
PRICE = Price(1, (PriceLine("org", Rate(8_000_000)),))


class Away(SqliteCredits):
    """A credit service that answers nobody."""

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        raise Unavailable("the credit service", "it was stopped")

    def void(self, key: str) -> None:
        raise Unavailable("the credit service", "it was stopped")


@pytest.fixture
def house(client: KubeClient, tmp_path: Path) -> Iterator[House]:
    clock, nodes, unused = SystemClock(), MemoryNodes(), None
    blobs = FolderBlobs(tmp_path / "blobs", "http://gateway", b"s" * 32, fsync=False)
    with closing(open_credits(tmp_path)) as money, closing(KubeWorkloads(client)) as store:
        credits = SqliteCredits(money, clock)
        credits.post("gift", "grant", {user_account("alice"): Credits(10_000_000), ISSUE: Credits(-10_000_000)})
        yield House(store, nodes, credits, unused, blobs, clock, unused, Terms(credits_enabled=True), MemoryMetering())  # type: ignore[arg-type]


def away(house: House, tmp_path: Path) -> Iterator[House]:
    with closing(open_credits(tmp_path)) as money:
        yield evolve(house, credits=Away(money, house.clock))


def ran(store: KubeWorkloads, name: str = "job-1") -> Job:
    """It has run for a while, all is stored, nothing is charged."""
    job = store.create(a_job(name))
    job = store.replace(evolve(job, status=job.status.with_condition(FUNDED, ConditionStatus.TRUE, Instant(1))))
    job = store.replace(evolve(job, status=lifecycle.allocated(job, (Slot("n1", 0, Mib(8192)),), 1, PRICE, Instant(1))))
    job = store.replace(evolve(job, status=lifecycle.running(job.status, Instant(2))))
    job = store.replace(evolve(job, status=lifecycle.ended(job, Exit(ExitKind.KILLED), RAN, Instant(3))))
    return store.replace(evolve(job, status=job.status.with_condition(RESULT_STORED, ConditionStatus.TRUE, Instant(4))))


def charged(house: House) -> Credits:
    entries = house.credits.journal(user_account("alice"))
    return sum((entry.amount for entry in entries if entry.kind == "charge"), Credits(0))


def test_a_deleted_object_goes_while_the_credit_service_is_away(house: House, tmp_path: Path, plane: Plane, client: KubeClient) -> None:
    """A finalizer never waits for ever; and what is owed is charged once when the service is back, once."""
    store = house.workloads
    assert isinstance(store, KubeWorkloads)
    job = ran(store)
    assert 0 == plane.kubectl("delete", "gwj", "job-1", "--wait=false", namespace=client.namespace).returncode
    found = store.get("job-1")
    assert found is not None
    assert (True, job.uid) == (found.leaving, found.uid)
    for without in away(house, tmp_path):
        assert Phase.CANCELLED is close(without, found).status.phase or found.status.outcome is not Phase.CANCELLED
    assert store.get("job-1") is None
    assert [job.uid] == [each.uid for each in BlobArrears(house.blobs).debts()]
    assert Credits(0) == charged(house)
    for expected in (1, 0):
        assert expected == collect(house).paid
        assert -cost(PRICE, RAN) == charged(house)


def test_one_that_stays_waits_for_the_credit_service(house: House, tmp_path: Path) -> None:
    """Its user sees the price when it says that it has ended."""
    store = house.workloads
    assert isinstance(store, KubeWorkloads)
    job = ran(store)
    for without in away(house, tmp_path):
        with pytest.raises(Unavailable):
            close(without, job)
    assert job == store.get("job-1")


def test_one_that_was_never_funded_goes_too(house: House, tmp_path: Path, plane: Plane, client: KubeClient) -> None:
    """Whatever hold there may be is given back later."""
    store = house.workloads
    made = store.create(a_job("job-1"))
    store.replace(evolve(made, status=made.status.with_condition(FUNDED, ConditionStatus.UNKNOWN, Instant(1))))
    assert 0 == plane.kubectl("delete", "gwj", "job-1", "--wait=false", namespace=client.namespace).returncode
    found = store.get("job-1")
    assert found is not None
    for without in away(house, tmp_path):
        with pytest.raises(Refused, match="deleted"):
            settle(without, found)
    assert store.get("job-1") is None
    assert [()] == [each.charges for each in BlobArrears(house.blobs).debts()]


def test_one_made_anew_while_the_old_one_still_owes_is_another_workload(
    house: House, tmp_path: Path, plane: Plane, client: KubeClient
) -> None:
    """Two objects of one name owe two charges."""
    store = house.workloads
    assert isinstance(store, KubeWorkloads)
    for _ in range(2):
        ran(store)
        assert 0 == plane.kubectl("delete", "gwj", "job-1", "--wait=false", namespace=client.namespace).returncode
        found = store.get("job-1")
        assert found is not None
        for without in away(house, tmp_path):
            close(without, found)
    assert 2 == collect(house).paid
    assert -cost(PRICE, RAN) - cost(PRICE, RAN) == charged(house)


def test_the_reaper_archives_what_ended_by_its_own_account(
    house: House, tmp_path: Path, plane: Plane, core_api: CoreV1Api, client: KubeClient
) -> None:
    """The process that the CronJob starts, with the token of its ServiceAccount: it may read and delete jobs, and no more."""
    done = [close(house, ran(house.workloads, name)) for name in ("job-1", "job-2")]  # type: ignore[arg-type]
    live = house.workloads.create(a_job("job-3"))
    assert 0 == plane.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"), namespace=client.namespace).returncode
    request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
    token = core_api.create_namespaced_service_account_token("gridweave-reaper", client.namespace, request).status.token
    settings = {
        "STORE": "kubernetes",
        "SCHEDULER": "external",
        "KUBERAY_NAMESPACE": client.namespace,
        "KUBECONFIG": str(plane.kubeconfig(token, client.namespace, "reaper")),
        "STATE_DIR": str(tmp_path),
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "JOBS_KEPT_HOURS": "0",
    }
    for expected in (2, 0):
        process = subprocess.run(
            [sys.executable, "-m", "runtimes.batch", "sweep", "--json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": SOURCES, **settings},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert 0 == process.returncode, process.stderr
        assert {"moved": expected, "unsettled": 0, "uploads": 0, "blobs": 0, "jobs": 0} == json.loads(process.stdout)
    assert "gridweavejob.gridweave.io/job-3" == plane.kubectl("get", "gwj", "-o", "name", namespace=client.namespace).stdout.strip()
    assert {"job-1", "job-2", live.id} == {each.id for each in pages(house, JobFilter(user="alice"), "", 10).jobs}
    assert [evolve(each, version="") for each in done] == [recall(house, each.id) for each in done]
