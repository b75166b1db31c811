"""The cluster of the embedded default, in one call: a local Ray that is started on first use, and its agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import evolve

from adapters.ray.cluster import AgentSettings, RayCluster
from adapters.ray.labels import DEMO
from adapters.ray.local import LOOPBACK, LocalRay
from adapters.ray.package import agent_package
from adapters.ray.process import DriverProcess
from adapters.ray.venv import uv_binary
from ports.cluster import ClusterNode

DEMO_LABELS = {DEMO: "true"}


def local_ray(home: Path, progress: Callable[[str], None] = lambda text: None) -> LocalRay:
    """The local Ray below `home`; nothing is started before `ensure`. Its one raylet carries the demo's nodes."""
    return LocalRay(home, DEMO_LABELS, progress)


def embedded_cluster(
    home: Path,
    secret: bytes,
    demo: Sequence[ClusterNode],
    progress: Callable[[str], None] = lambda text: None,
    agents: AgentSettings | None = None,
) -> RayCluster:
    """A cluster of these imaginary nodes; the local Ray is started (or found) when it is first asked, and anew when it has died.

    agents: as they shall work; their folder and their uv are known here.

    Closing it leaves Ray, agents and runs alive: `local_ray(home).stop(runs=True)` ends them.
    Raises Unavailable if the agent's package or uv is not installed.
    """
    local, package = local_ray(home, progress), agent_package()
    driver = DriverProcess(local.ensure, package.data, LOOPBACK, fault=local.fault)
    return RayCluster(driver, package, evolve(agents or AgentSettings(""), dir=str(local.agent_dir), uv=uv_binary()), secret, demo)
