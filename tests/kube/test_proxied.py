"""The whole house without a way to Kubernetes of its own: gateways, schedulers and biller through `gridweave-control`."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
import pytest

from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import Gateway
from tests.e2e.rig import BIG, User, until
from tests.e2e.submits import body
from tests.kube.house import Control, KubeHouse, square


@pytest.fixture
def control(house: KubeHouse) -> Iterator[Control]:
    gateway = house.gateways[0]
    made = Control(gateway.state, {**gateway.settings, "KUBECONFIG": house.kubeconfigs["control"]})
    made.start()
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def proxied(house: KubeHouse, control: Control) -> Iterator[Mapping[str, str]]:
    """Every process of the house in another life, with these settings, and as before afterwards."""
    settings = {"STORE": "proxied", "KUBERAY_SERVICE_URL": control.url, "KUBECONFIG": "/dev/null"}
    former = [each.settings for each in house.gateways]
    try:
        for scheduler in house.schedulers:
            house.again(scheduler, **settings)
        for gateway in house.gateways:
            anew(gateway, {**gateway.settings, **settings})
        for gateway in house.gateways:
            gateway.ready()
        yield settings
    finally:
        for scheduler in house.schedulers:
            house.again(scheduler, STORE="kubernetes", KUBECONFIG=house.kubeconfigs["scheduler"])
        for gateway, before in zip(house.gateways, former, strict=True):
            anew(gateway, before)
        for gateway in house.gateways:
            gateway.ready()


def anew(gateway: Gateway, settings: Mapping[str, str]) -> None:
    gateway.stop()
    gateway.settings = settings
    gateway.start()


def test_the_house_runs_through_the_control_service(house: KubeHouse, control: Control) -> None:
    """What was booked before is known to whoever takes over, the service may die, and the bill is the same."""
    user = house.rig.user()
    held = user.hold(vram="60GB", owner="org")
    with proxied(house, control) as settings:
        assert "Completed" == user.ended(user.spawn(square, 2))["phase"]
        waiting = user.spawn(square, 3, vram="60GB", gpus=2)  # both GPUs: one of them is taken
        assert ("Pending", "Running") == (waiting.status()["phase"], held.status()["phase"])
        leader = until(house.leader, "somebody holds the Lease, through the service")
        epoch = house.epoch()
        leader.signal(signal.SIGKILL)
        until(lambda: house.epoch() > epoch, "another one leads")
        assert_away(house, user, control)
        assert ("Pending", "Running", 1) == (waiting.status()["phase"], (now := held.status())["phase"], now["attempt"])
        balance = user.balance()
        while user.balance() == balance:
            house.bill(**settings)
        user.release(held)
        assert ("Completed", 9) == (user.ended(waiting)["phase"], waiting.result())
        for job in (held, waiting):
            assert cost(job.status(), 60 if job is held else 120) == charged(job.status())
        house.again(leader)
        house.sound()


def assert_away(house: KubeHouse, user: User, control: Control) -> None:
    """While the service is away nothing is taken and nothing is left; then all goes on."""
    control.kill()
    try:
        answer = user.direct.post("/v1/jobs/submit", json=body(), headers={"Idempotency-Key": "while-away"})
        assert 503 == answer.status_code, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert 200 == httpx.get(f"{house.gateways[0].url}/healthz", timeout=10).status_code
    finally:
        control.start()
    until(lambda: house.rig.all_ready([BIG]), "the node ready again")
    assert 3 == len(until(lambda: answered(user), "jobs are listed again"))


def answered(user: User) -> list[object]:
    said = user.direct.get("/v1/jobs")
    jobs: list[object] = said.json()["jobs"] if said.status_code == 200 else []
    return jobs
