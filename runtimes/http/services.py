"""What the routes are given: the house, its live copy, and what only a gateway needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import field, frozen
from prometheus_client import CollectorRegistry

from core.house import House
from ports.blobs import Grant
from ports.units import Instant, Span
from ports.workloads import RunId
from runtimes.batch.host import Round
from runtimes.http.pools import Pools
from runtimes.http.watch import Watch
from runtimes.settings import Settings


@frozen
class Permit:
    """What a checked grant allows. max_size: bytes of a body that is put."""

    key: str
    max_size: int = 0


class GrantCheck(Protocol):
    """The other side of grants that the gateway serves: URLs on `/v1/blobs/`, signed with the house's secret."""

    def __call__(self, method: str, path: str, query: str, now: Instant) -> Permit:
        """path: decoded. query: as it came. Raises Forbidden on a URL that is forged, altered, expired or for another method."""
        ...


@frozen
class Tail:
    """A piece of a live log. end: bytes that the agent has so far. complete: no more will come."""

    data: bytes
    end: int
    complete: bool


class Tails(Protocol):
    """Live logs, from the agents."""

    async def read(self, node: str, address: str, run: RunId, offset: int, limit: int, wait: Span) -> Tail | None:
        """node: its name; address: its agent's. Waits up to `wait` for the first byte past `offset`.
        None: the agent does not know the run. Raises Unavailable."""
        ...

    async def close(self) -> None: ...


def _nothing_missing() -> list[str]:
    return []


@frozen
class Services:
    """check_grant: of URLs below /v1/blobs/. upload_grants: makes those that users upload by, of prefix, bytes and end; None: the
    blob store's own. not_ready: why no new work would run now, empty if it would. versions: of the cluster, shown at /version.
    rounds: the last ones of what this process hosts. trouble: why its scheduler can't ask the cluster, "" if it can.
    stopping: set at SIGTERM. spool: where large bodies wait until they are whole, None for the system's own folder."""

    settings: Settings
    house: House
    watch: Watch
    tails: Tails
    check_grant: GrantCheck | None = None
    upload_grants: Callable[[str, int, Instant], Grant] | None = None
    not_ready: Callable[[], list[str]] = _nothing_missing
    versions: dict[str, str] = field(factory=dict)
    registry: CollectorRegistry = field(factory=CollectorRegistry)
    pools: Pools = field(factory=Pools)
    stopping: asyncio.Event = field(factory=asyncio.Event)
    rounds: Callable[[], tuple[Round, ...]] = lambda: ()
    trouble: Callable[[], str] = str
    spool: Path | None = None
    on_start: Callable[[], None] = lambda: None
    on_stop: Callable[[], None] = lambda: None

    def reasons(self) -> list[str]:
        """Why new work would not run now."""
        stopping = ["The gateway is stopping."] if self.stopping.is_set() else []
        stale = [f"The workload store does not answer: {self.watch.stale}."] if self.watch.stale else []
        return stopping + stale + self.not_ready()

    def stop(self) -> None:
        """No new work; streams and waiting requests end now. On the event loop."""
        self.stopping.set()
        self.watch.wake_all()
