"""The same house without money, as the demo fleet on one machine: nothing is held or charged, and all else works."""

from __future__ import annotations

from collections.abc import Iterator

import gridweave as gw
import pytest

from adapters.ray.embedded import local_ray
from tests.e2e.gateways import Gateway
from tests.e2e.rig import end_all, spawned_by, until
from tests.e2e.secrecy import canaries, check_left, check_standing

FLEET = "1x2xA100-80GB:org,1x1xL4-24GB:provider:acme"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a demo fleet and without credits; it starts and stops its own Ray."""
    state = tmp_path_factory.mktemp("off") / "state"
    gateway = Gateway(state, {"CREDITS_ENABLED": "false"}, ("--demo-fleet", FLEET))
    try:
        gateway.start()
        gateway.ready()
        yield gateway
        check_standing(gateway, known := canaries(state, ("org-1", "acme-1")), state / "ray")
        assert 0 == gateway.stop()
        assert () == local_ray(state / "ray").nodes, "it has stopped its Ray"
    finally:
        gateway.stop()
        local_ray(state / "ray").stop(runs=True)
    check_left(state.parent, known)


@pytest.fixture
def client(demo: Gateway) -> Iterator[gw.Client]:
    with gw.Client(demo.url) as client:
        yield client
        end_all(client)


def test_a_job_runs_without_credits_and_nothing_is_held_or_charged(client: gw.Client) -> None:
    """A lab that shares its own machines needs no bank."""

    def square(x: int) -> int:
        print("squaring", x)
        return x * x

    job = spawned_by(client, square, 7, vram="8GB")
    assert 49 == job.result(timeout=60)
    assert b"squaring 7\n" == b"".join(job.log_bytes())
    status = until(lambda: said if (said := job.status())["phase"] == "Completed" else None, "it is settled")
    assert ("0.000000", "0.000000") == (status["hold"], status["charged"])
    assert status["ran_ms"] > 0
    account = client.account()
    assert (False, "0.000000", "0.000000") == (account["credits_enabled"], account["balance"], account["held"])
    assert [] == client.usage()["entries"]


def test_an_estimate_without_credits_costs_nothing_and_says_where(client: gw.Client) -> None:
    """The dry run is about room, too."""
    said = client.estimate(gw.function(vram="30GB")(lambda: None).options)
    assert said.affordable
    assert said.placeable_now
    assert ["org-1"] == [slot["node"] for slot in said.placement]


def test_failing_waiting_and_cancelling_are_the_same_without_credits(client: gw.Client) -> None:
    """Money is the only difference."""

    def waits() -> None:
        import time

        time.sleep(86_400)

    def fails() -> None:
        raise ValueError("as ever")

    with pytest.raises(ValueError, match="as ever"):
        spawned_by(client, fails).result(timeout=60)
    whole = {"provider": "acme", "exclusive": True}
    first, second = spawned_by(client, waits, **whole), spawned_by(client, waits, **whole)
    until(lambda: second.status()["waiting"], "the second waits")
    first.cancel()
    until(lambda: second.status()["phase"] == "Running", "the second runs")
    second.cancel()
    with pytest.raises(gw.Cancelled):
        second.result(timeout=60)
    until(lambda: second.status()["phase"] == "Cancelled", "it is settled")
    assert {"0.000000"} == {job["charged"] for job in client.jobs()}
