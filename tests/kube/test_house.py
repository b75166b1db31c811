"""The whole house with Kubernetes as its source of truth: any of its processes may go."""

from __future__ import annotations

import json
import platform
import signal
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version

import httpx
import pytest
from kubernetes.client import CoreV1Api

from adapters.k8s.client import connect
from ports.units import Credits
from tests.e2e.rig import User, until
from tests.kube.fixtures import fresh_namespace
from tests.kube.house import KubeHouse, kube_house
from tests.kube.plane import Plane

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module")
def house(own_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeHouse]:
    with closing(connect(kubeconfig=str(own_plane.kubeconfig()))) as admin:
        namespace = fresh_namespace(CoreV1Api(admin.api))
    with kube_house(own_plane, namespace, tmp_path_factory.mktemp("house")) as made:
        yield made


def square(x: int) -> int:
    return x * x


def test_a_job_runs_and_kubectl_tells_of_it(house: KubeHouse) -> None:
    """The object is all that there is of it, and says all of it."""
    user = house.rig.user()
    job = user.spawn(square, 7)
    assert "Completed" == user.ended(job)["phase"]
    assert 49 == job.result()
    form = json.loads(house.kubectl("get", "gwj", job.id, "-o", "json"))
    assert ("Completed", "org-big:0") == (form["status"]["phase"], form["status"]["where"])
    said = {each["type"] for each in form["status"]["conditions"]}
    assert {"Allocated", "Charged", "Completed", "Funded", "HoldVoided", "ResultStored", "Running"} == said


def test_deleting_a_running_jobs_object_cancels_and_charges_it(house: KubeHouse) -> None:
    """Who works with kubectl gets no GPU for nothing, and leaves none behind."""
    user = house.rig.user()
    job = user.hold(vram="8GB")
    user.running(job)
    house.kubectl("delete", "gwj", job.id, "--timeout=60s")
    assert "" == house.kubectl("get", "gwj", job.id, "--ignore-not-found")
    until(house.rig.idle, "every GPU free again")
    account = user.client.account()
    assert "0.000000" == account["held"]
    assert user.balance() < Credits.parse("1000")


def test_a_job_outlives_the_scheduler_that_placed_it(house: KubeHouse) -> None:
    """The next one finds the booking in the object, and the run on its node."""
    user = house.rig.user()
    held = user.hold(vram="8GB")
    leader = until(house.leader, "somebody holds the Lease")
    epoch = int(house.kubectl("get", "gwepoch", "scheduler", "-o", "jsonpath={.spec.newest}"))
    leader.signal(signal.SIGKILL)
    job = user.spawn(square, 8)
    assert "Completed" == user.ended(job)["phase"]
    assert epoch < int(house.kubectl("get", "gwepoch", "scheduler", "-o", "jsonpath={.spec.newest}"))
    assert ("Running", 1) == ((status := held.status())["phase"], status["attempt"])
    user.release(held)
    until(house.rig.idle, "every GPU free again")
    leader.stop()
    leader.start()


def test_submits_while_the_api_server_is_away_leave_nothing(house: KubeHouse) -> None:
    """503 with a time to come back; what runs runs on, and when it is back everything catches up."""
    user = house.rig.user()
    held = user.hold(vram="8GB")
    balance = user.balance()
    until(lambda: ticked(house, user, balance), "a tick")
    balance = user.balance()
    house.plane.stop("kube-apiserver")
    try:
        answer = user.direct.post("/v1/jobs/submit", json=_submission())
        assert 503 == answer.status_code, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert 200 == httpx.get(f"{house.rig.gateway.url}/healthz", timeout=10).status_code
    finally:
        house.plane.start_api()
    until(lambda: ticked(house, user, balance), "ticks that catch up")
    assert [held.id] == [each["id"] for each in user.client.jobs()]
    assert ("Running", 1) == ((status := held.status())["phase"], status["attempt"])
    assert "Completed" == user.ended(user.spawn(square, 9))["phase"]
    user.release(held)
    until(house.rig.idle, "every GPU free again")


def ticked(house: KubeHouse, user: User, balance: Credits) -> bool:
    """Whether a round of the biller takes something from that balance."""
    house.bill()
    return user.balance() < balance


def _submission() -> dict[str, object]:
    return {
        "function": {"inline": "gASVBAAAAAAAAABLAS4="},
        "args": {"inline": "gASVBAAAAAAAAABLAS4="},
        "name": "away",
        "vram": "1GB",
        "client": {"python": platform.python_version(), "cloudpickle": version("cloudpickle")},
    }
