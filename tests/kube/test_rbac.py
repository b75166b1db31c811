"""Each process may do what its work needs, and nothing more: with a token of its own ServiceAccount."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from kubernetes.client import AuthorizationV1Api, CoreV1Api

from adapters.k8s.client import KubeClient, connect
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.leadership import LeaseLeadership
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import KubeWorkloads
from ports.errors import Unavailable
from ports.nodes import NodeRecord, NodeSpec, NodeStatus
from ports.tariffs import Tariff
from ports.units import Instant
from ports.workloads import Phase
from tests.contract.samples import a_job, counted, to_phase
from tests.kube.plane import MANIFESTS, Plane

READ, FOLLOW = {"get", "list"}, {"get", "list", "watch"}
MAY = {
    "gateway": {
        "gridweavejobs": FOLLOW | {"create", "delete", "patch"},
        "gridweaveendpoints": FOLLOW | {"create", "delete", "patch"},
        "gridweavejobs/status": {"update"},
        "gridweaveendpoints/status": {"update"},
        "gridweavenodes": READ | {"create", "update"},
        "gridweavetariffs": READ | {"create"},
        "leases:gridweave-scheduler": {"get"},
    },
    "scheduler": {
        "gridweavejobs": FOLLOW | {"delete", "patch"},
        "gridweaveendpoints": FOLLOW | {"delete", "patch"},
        "gridweavejobs/status": {"update"},
        "gridweaveendpoints/status": {"update"},
        "gridweavenodes": READ | {"create"},
        "gridweavenodes/status": {"update"},
        "gridweavetariffs": READ | {"create"},
        "gridweaveepochs": {"get", "create", "update"},
        "leases": {"create"},
        "leases:gridweave-scheduler": {"get", "update"},
        "events": {"create"},
    },
    "biller": {
        **dict.fromkeys(("gridweavejobs", "gridweaveendpoints", "gridweavenodes", "gridweavetariffs"), READ),
        "gridweavejobs/status": {"update"},
        "gridweaveendpoints/status": {"update"},
    },
    "control": {
        "gridweavejobs": FOLLOW | {"create", "delete", "patch"},
        "gridweaveendpoints": FOLLOW | {"create", "delete", "patch"},
        **{key: {"update"} for key in ("gridweavejobs/status", "gridweaveendpoints/status", "gridweavenodes/status")},
        "gridweavenodes": READ | {"create", "update", "delete"},
        "gridweavetariffs": READ | {"create"},
        "gridweaveepochs": {"get", "create", "update"},
        "leases": {"create"},
        "leases:gridweave-scheduler": {"get", "update"},
        "events": {"create"},
    },
    "reaper": {"gridweavejobs": READ | {"delete", "patch"}},
}
OF_EVERYBODY = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews", "clustertrustbundles"}


@pytest.fixture
def accounts(plane: Plane, core_api: CoreV1Api, namespace: str) -> Iterator[dict[str, KubeClient]]:
    """A client of each ServiceAccount."""
    made = plane.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"), namespace=namespace)
    assert made.returncode == 0, made.stderr
    with ExitStack() as stack:
        clients = {}
        for name in MAY:
            request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
            token = core_api.create_namespaced_service_account_token(f"gridweave-{name}", namespace, request).status.token
            clients[name] = stack.enter_context(closing(connect(namespace, str(plane.kubeconfig(token, namespace, name)))))
        yield clients


@pytest.mark.parametrize("name", MAY)
def test_a_process_may_do_no_more_than_listed(accounts: dict[str, KubeClient], name: str) -> None:
    """Whoever takes over one of them has got that, and not the cluster."""
    client = accounts[name]
    review = AuthorizationV1Api(client.api).create_self_subject_rules_review({"spec": {"namespace": client.namespace}})
    found: dict[str, set[str]] = {}
    for rule in review.status.resource_rules:
        for resource in rule.resources:
            for key in [f"{resource}:{each}" for each in rule.resource_names or ()] or [resource]:
                found.setdefault(key, set()).update(rule.verbs)
    assert MAY[name] == {key: verbs for key, verbs in found.items() if key not in OF_EVERYBODY}


def test_each_process_can_do_its_work(accounts: dict[str, KubeClient]) -> None:
    """Least privilege that is too little is an outage."""
    gateway, scheduler, biller = (accounts[name] for name in ("gateway", "scheduler", "biller"))
    KubeTariffs(scheduler).publish(Tariff(1, Instant(0), 0, 1))
    assert 1 == len(KubeTariffs(gateway).history()) == len(KubeTariffs(biller).history())
    with closing(KubeWorkloads(gateway)) as front, closing(KubeWorkloads(scheduler)) as back:
        cursors = front.changes("").cursor, back.changes("").cursor
        job = front.create(a_job("job-1"))
        job = back.replace(to_phase(job, Phase.ALLOCATED))
        job = KubeWorkloads(biller).replace(counted(job))
        assert [["job-1"]] * 2 == [[each.id for each in store.changes(at).jobs] for store, at in zip((front, back), cursors, strict=True)]
        front.delete(job)
    KubeNodes(scheduler).put_status(NodeRecord("n1", status=NodeStatus(reason="new")))
    record = KubeNodes(gateway).get("n1")
    assert record is not None
    KubeNodes(gateway).put_spec(NodeRecord("n1", NodeSpec("org"), record.status, record.version))
    KubeEpochs(scheduler).raise_to(1, 0)
    lease = LeaseLeadership(scheduler, "me")
    assert lease.acquire()
    lease.release()


def test_nobody_does_anothers_work(accounts: dict[str, KubeClient]) -> None:
    """A gateway that schedules, or a biller that submits, is a bug or an intruder."""
    gateway, biller, reaper = accounts["gateway"], accounts["biller"], accounts["reaper"]
    with pytest.raises(Unavailable, match="Forbidden"):
        KubeEpochs(gateway).raise_to(1, 0)
    with pytest.raises(Unavailable, match="Forbidden"):
        LeaseLeadership(gateway, "me").acquire()
    with pytest.raises(Unavailable, match="Forbidden"):
        KubeNodes(gateway).put_status(NodeRecord("n1", status=NodeStatus(reason="mine")))
    with pytest.raises(Unavailable, match="Forbidden"):
        KubeWorkloads(biller).create(a_job("job-1"))
    job = KubeWorkloads(gateway).create(a_job("job-1"))
    with pytest.raises(Unavailable, match="Forbidden"):
        KubeWorkloads(reaper).replace(counted(job))
