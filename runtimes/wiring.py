"""Which adapter serves which port, decided once, by one setting each. Nothing else names an adapter's class.

Opened in each process after it was forked: database connections and threads do not cross a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum

import structlog
from attrs import evolve, frozen

from adapters.local.clock import SystemClock
from adapters.local.randomness import SystemRandomness
from adapters.ray.cluster import AgentSettings, RayCluster
from adapters.ray.embedded import embedded_cluster, local_ray
from adapters.ray.local import LOOPBACK
from adapters.ray.package import agent_package
from adapters.ray.process import DriverProcess
from core.house import House, Terms
from ports.cluster import Cluster
from ports.errors import Conflict
from ports.leadership import Epochs, Leadership
from ports.tariffs import Tariff, Tariffs
from ports.units import Instant
from runtimes.batch.host import Host
from runtimes.blob_stores import open_blobs
from runtimes.clock_offset import clock_of
from runtimes.demo_fleet import demo_nodes
from runtimes.failpoints import Failpoints
from runtimes.money import open_money
from runtimes.settings import Settings
from runtimes.state import house_secret, state_folder
from runtimes.stores import open_stores

log = structlog.get_logger("gridweave.wiring")


@frozen
class Wired:
    """The ports of one process. secret: of the house. connect: makes the cluster's adapter for one term.
    books: the proof of the journal, and the alarms."""

    house: House
    leadership: Leadership
    epochs: Epochs
    secret: bytes
    connect: Callable[[], Cluster]
    books: Callable[[], dict[str, object]]
    _opened: ExitStack

    def host(self, settings: Settings) -> Host:
        """Scheduler and biller in this process."""
        return Host(self.house, self.leadership, self.epochs, self.connect, _disconnect, settings.billing_tick)

    def close(self) -> None:
        self._opened.close()


class Part(Enum):
    """What a process is for: it does nothing that its own account on the cluster may not."""

    GATEWAY = "gateway"
    SCHEDULER = "scheduler"
    BILLER = "biller"
    REAPER = "reaper"


def wire(settings: Settings, gateway_url: str, part: Part = Part.GATEWAY) -> Wired:
    """Open everything. Raises Unavailable, Refused."""
    folder = state_folder(settings.state_dir)
    secret = house_secret(folder)
    clock, opened = clock_of(os.environ, SystemClock()), ExitStack()
    money = open_money(settings, folder, clock, opened)
    stores = open_stores(settings, folder, opened, part is Part.SCHEDULER)
    if part in (Part.GATEWAY, Part.SCHEDULER):
        first_tariff(stores.tariffs, settings)
    terms = Terms(
        credits_enabled=settings.credits_enabled,
        preflight=settings.preflight,
        setup_bound=settings.setup_bound,
        lost_after=settings.node_lost,
        result_bound=settings.result_pending,
        max_result=settings.max_result,
        grant_life=settings.grant_life,
        placement=settings.placement_policy,
        archive_after=settings.jobs_kept,
        retention=settings.retention,
        exposure_limit=settings.exposure,
    )
    blobs = open_blobs(settings, folder, gateway_url, secret, clock, opened)
    house = House(stores.workloads, stores.nodes, money.credits, stores.tariffs, blobs, clock, SystemRandomness(), terms, money.metering)
    wired = Wired(house, stores.leadership, stores.epochs, secret, lambda: connect(settings, secret), money.books, opened)
    points = Failpoints.read(os.environ)
    return wired if points is None else _with_failpoints(wired, points)


def _with_failpoints(wired: Wired, points: Failpoints) -> Wired:
    """Every port of it passes by them."""
    return evolve(
        wired,
        house=points.house(wired.house),
        leadership=points.wrapped(wired.leadership, "leadership"),
        epochs=points.wrapped(wired.epochs, "epochs"),
        connect=lambda: points.wrapped(wired.connect(), "cluster"),
    )


def connect(settings: Settings, secret: bytes) -> Cluster:
    """The cluster's adapter. Nothing is connected before it is first asked."""
    folder = settings.state_dir.absolute()
    if settings.demo:
        return embedded_cluster(folder / "ray", secret, demo_nodes(settings.demo_fleet), _say_of_ray, _agents(settings, ""))
    package, agents = agent_package(), _agents(settings, str(folder / "agents"))
    address = settings.ray_head_address
    driver = DriverProcess(lambda: address, package.data, LOOPBACK if address.startswith(("127.", "localhost:")) else {})
    return RayCluster(driver, package, agents, secret)


def _say_of_ray(text: str) -> None:
    log.info("local ray", doing=text)


def _agents(settings: Settings, folder: str) -> AgentSettings:
    """What the operator has said of the agents' work."""
    return AgentSettings(folder, chunk_bytes=settings.log_chunk_bytes, chunk_age=settings.log_chunk_age, result_cap=settings.max_result)


def stop_local_ray(settings: Settings) -> None:
    """End the embedded default's Ray. What runs on it runs on, and is found again by the next start."""
    local_ray(settings.state_dir.absolute() / "ray").stop()


def first_tariff(tariffs: Tariffs, settings: Settings) -> None:
    """Version 1, from the settings, where no price list was ever published; a later one is an admin's to publish."""
    if tariffs.history():
        return
    try:
        tariffs.publish(Tariff(1, Instant(0), settings.base_credits.micro, settings.vram_credits.micro))
    except Conflict:
        return  # another process was faster, with the same settings


def _disconnect(cluster: Cluster) -> None:
    close: Callable[[], None] | None = getattr(cluster, "close", None)
    if close is not None:
        close()
