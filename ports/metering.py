"""Usage events for whoever meters: at least once, told apart by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from ports.units import Credits, Instant, Span
from ports.workloads import RunId


@frozen
class Usage:
    """What a run has used so far. id: the same for the same event. kind: "tick" or "final". total: charged so far."""

    id: str
    at: Instant
    user: str
    run: RunId
    kind: str
    ran: Span
    total: Credits


class Metering(Protocol):
    def record(self, usage: Sequence[Usage]) -> None:
        """Raises Unavailable; recording the same id twice is recording it once."""
        ...
