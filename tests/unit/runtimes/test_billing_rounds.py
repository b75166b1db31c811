"""The biller's loop: rounds come one after another, however long each takes, and whatever one of them raises."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from core.house import House, Terms
from ports.errors import Unavailable
from ports.nodes import NodeRecord
from ports.units import Span
from runtimes.batch.host import Host
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock
from tests.memory.credits import MemoryCredits
from tests.memory.metering import MemoryMetering
from tests.memory.workloads import MemoryWorkloads

ROUNDS = 5
NOBODY: Any = None


class Slow:
    """Node records that are read slowly: each round stands here until the interval has passed many times over."""

    def __init__(self, error: Exception | None = None) -> None:
        self.inside = self.most = self.rounds = 0
        self.done = threading.Event()
        self._error = error

    def list(self) -> tuple[NodeRecord, ...]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.rounds += 1
        threading.Event().wait(0.02)
        self.inside -= 1
        if self.rounds >= ROUNDS:
            self.done.set()
        if self._error is not None:
            raise self._error
        return ()


def host_of(nodes: Slow) -> Host:
    clock = ManualClock()
    terms, records = Terms(credits_enabled=True), cast(Any, nodes)
    house = House(MemoryWorkloads(), records, MemoryCredits(clock), NOBODY, MemoryBlobs(clock), clock, NOBODY, terms, MemoryMetering())
    return Host(house, NOBODY, NOBODY, NOBODY, NOBODY, Span(1))


@pytest.mark.parametrize("error", [None, Unavailable("the store"), RuntimeError("a bug")])
def test_a_round_that_takes_longer_than_the_interval_never_overlaps_itself(error: Exception | None) -> None:
    """Two at once would only read everything twice; and one that failed is not the last."""
    nodes = Slow(error)
    host = host_of(nodes)
    biller = threading.Thread(target=host._bill)
    biller.start()
    try:
        assert nodes.done.wait(60)
    finally:
        host._stop.set()
        biller.join(60)
    assert 1 == nodes.most
    (said,) = host.rounds()
    assert "billing" == said.what
    assert ("0 runs" if error is None else "cut short" if isinstance(error, Unavailable) else "failed") in said.said
