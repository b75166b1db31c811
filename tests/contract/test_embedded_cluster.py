"""The embedded default as a whole: an imaginary fleet on one local Ray, and what is left when that is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from gridweave_agent.rundir import RunDir

from adapters.ray.cluster import RayCluster
from adapters.ray.embedded import embedded_cluster, local_ray
from adapters.ray.labels import demo_fleet
from ports.cluster import Agent, ClusterNode, Go, ReportState
from ports.errors import Unavailable
from ports.units import Mib, Span
from ports.workloads import RunId, Slot
from tests.contract.cluster_rigs import Blobs, prepared

pytestmark = pytest.mark.xdist_group("ray")
FLEET = demo_fleet("1x4xA100-80GB:org,1x2xL4-24GB:provider:acme")
RUN = RunId("job-sleeps", 1)
ROUNDS = 60


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[Blobs]:
    made = Blobs(tmp_path / "blobs")
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RayCluster]:
    made = embedded_cluster(tmp_path, b"secret", FLEET)
    yield made
    made.close()
    local_ray(tmp_path).stop(runs=True)


def started(agent: Agent, blobs: Blobs) -> None:
    """A run that sleeps for an hour, until it runs."""
    slot = Slot("acme-1", 0, Mib(1024))
    agent.hello(1)
    agent.command(1, [prepared(RUN, slot, Mib(24_576), lambda: time.sleep(3600), blobs)])
    cursor = ""
    for _ in range(ROUNDS):
        agent.command(1, [Go(RUN)])  # refused until it is ready
        reports = agent.reports(cursor, Span(500))
        cursor = reports.cursor
        if ReportState.RUNNING in {each.state for each in reports.reports}:
            return
    pytest.fail("the run never ran")


def nodes_of(cluster: RayCluster) -> dict[str, ClusterNode]:
    """As soon as the local Ray has started, which a busy machine draws out."""
    for _ in range(ROUNDS):
        with suppress(Unavailable):
            return {node.name: node for node in cluster.nodes()}
    pytest.fail("the local Ray never answered")


def supervised(home: Path) -> list[bool]:
    """Of each run's folder, whether its supervisor lives."""
    return [RunDir(str(folder)).locked() for folder in local_ray(home).agent_dir.glob("*/runs/*")]


def test_runs_outlive_the_local_ray_until_they_are_ended_too(cluster: RayCluster, blobs: Blobs, tmp_path: Path) -> None:
    """Stopping the demo leaves nothing behind, restarting a gateway loses nothing: the two must not be mixed up."""
    nodes = nodes_of(cluster)
    assert {node.name: (node.owner, node.gpus) for node in FLEET} == {name: (node.owner, node.gpus) for name, node in nodes.items()}
    assert all(node.alive for node in nodes.values())
    started(cluster.agent(nodes["acme-1"]), blobs)
    assert "org-1" == cluster.agent(nodes["org-1"]).hello(1).node
    cluster.close()
    local_ray(tmp_path).stop()
    assert [True] == supervised(tmp_path)
    again = embedded_cluster(tmp_path, b"secret", FLEET)
    try:
        found = again.agent(nodes_of(again)["acme-1"])
        assert {RUN: ReportState.RUNNING} == {each.run: each.state for each in found.hello(2).runs}
    finally:
        again.close()
    local_ray(tmp_path).stop(runs=True)
    assert [False] == supervised(tmp_path)
