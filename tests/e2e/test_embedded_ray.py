"""The demo's own Ray dies under a gateway that lives: what ran there is lost if it takes long, and all else comes back by itself."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gridweave as gw
import httpx
import pytest
from gridweave.jobs import Job

from adapters.ray.embedded import local_ray
from adapters.ray.local import LocalNode
from adapters.ray.sessions import ProcessId
from tests.e2e.gateways import Gateway
from tests.e2e.rig import end_all, spawned_by, until
from tests.e2e.secrecy import canaries, check_left

FLEET = "1x2xA100-80GB:org"
LOST_S = "3"  # of silence, until a node has lost what ran there


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a Ray of its own."""
    state = tmp_path_factory.mktemp("embedded") / "state"
    gateway = Gateway(state, {"CREDITS_ENABLED": "false"}, ("--demo-fleet", FLEET))
    try:
        gateway.start()
        gateway.ready()
        yield gateway
        known = canaries(state, ("org-1",))
    finally:
        gateway.stop()
        local_ray(state / "ray").stop(runs=True)
    check_left(state.parent, known)


@pytest.fixture
def impatient(demo: Gateway) -> Iterator[Gateway]:
    """It soon gives up a node that can't be asked; as before afterwards. Its Ray outlives it, whoever has started that."""
    settings, ray = demo.settings, head_of(demo)
    demo.kill()
    try:
        demo.settings = {**settings, "NODE_LOST_SECONDS": LOST_S}
        demo.start()
        demo.ready()
        assert ray == head_of(demo)
        assert None not in (ray.raylet, ray.gcs)
        yield demo
    finally:
        demo.kill()
        demo.settings = settings
        demo.start()


@pytest.fixture
def client(demo: Gateway) -> Iterator[gw.Client]:
    demo.ready()
    with gw.Client(demo.url) as client:
        yield client
        end_all(client)


def head_of(demo: Gateway) -> LocalNode:
    return next(iter(local_ray(demo.state / "ray").nodes))


def started_anew(demo: Gateway, before: LocalNode) -> bool:
    return before not in (nodes := local_ray(demo.state / "ray").nodes) and any(node.raylet for node in nodes)


def kill(*processes: ProcessId) -> None:
    assert processes
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


@contextmanager
def nobody_starts_ray(demo: Gateway) -> Iterator[None]:
    """Whoever wants to start it has to wait for its lock."""
    with open(demo.state / "ray" / "ray.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def running(client: gw.Client, function: Any, *args: Any) -> Job:
    job = spawned_by(client, function, *args)
    until(lambda: job.status()["phase"] == "Running", "it runs")
    return job


def quarantined(client: gw.Client) -> int:
    """MiB, on all nodes."""
    return sum(gpu["quarantined_mib"] for node in client.resources()["nodes"] for gpu in node["gpus"])


def ready(demo: Gateway) -> bool:
    return httpx.get(f"{demo.url}/readyz", timeout=30).status_code == 200


def explained(demo: Gateway) -> bool:
    """Whether /readyz says that Ray is at fault, and so do the metrics."""
    reasons = httpx.get(f"{demo.url}/readyz", timeout=30).json()["reasons"]
    return any("The cluster can't be asked: ray" in reason for reason in reasons) and unreachable(demo) == 1


def unreachable(demo: Gateway) -> float:
    lines = httpx.get(f"{demo.url}/metrics", timeout=30).text.splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith("gridweave_cluster_unreachable ")))


def waits(flag: str) -> str:
    import os
    import time

    while not os.path.exists(flag):
        time.sleep(0.02)
    return "done"


def test_a_killed_raylet_is_started_again_and_what_ran_runs_on(demo: Gateway, client: gw.Client, tmp_path: Path) -> None:
    """Its user does not know that there is a Ray, and would wait for ever."""
    flag = tmp_path / "flag"
    job, before, pid = running(client, waits, str(flag)), head_of(demo), demo.pid
    kill(*before.session.members("raylet"))
    until(lambda: started_anew(demo, before), "another raylet")
    assert 5 == spawned_by(client, lambda: 5).result(timeout=90)
    assert () == before.session.members(), "nothing is left of the old one"
    assert "Running" == job.status()["phase"]
    flag.touch()
    assert "done" == job.result(timeout=60)
    assert pid == demo.pid
    assert "Starting a local Ray anew: its raylet died" in demo.log


def test_a_killed_head_that_can_not_be_started_is_told_and_what_it_cost_is_given_back(
    impatient: Gateway, client: gw.Client, tmp_path: Path
) -> None:
    """VRAM that nobody can use, with nobody to ask why, is what a person would have to restart everything for."""
    job = running(client, waits, str(tmp_path / "flag"))
    with nobody_starts_ray(impatient):
        head = head_of(impatient).session
        kill(*head.members("gcs_server"), *head.members("ray::AgentStub"))
        lost = until(lambda: said if (said := job.status())["phase"] == "Failed" else None, "it is given up")
        assert "RunnerLost" == lost["reason"]
        assert 1024 == quarantined(client)
        until(lambda: explained(impatient), "the reason is told")
    assert 5 == spawned_by(client, lambda: 5).result(timeout=90)
    until(lambda: quarantined(client) == 0, "the node has been swept")
    until(lambda: ready(impatient) and unreachable(impatient) == 0, "all is well")
    assert "Starting a local Ray anew: its GCS died" in impatient.log
