"""Usage events for whoever meters: at least once, told apart by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from ports.units import Credits, Instant, Span
from ports.workloads import RunId


@frozen
class Usage:
    """What a run has used so far. id: the same for the same event. kind: "tick", "final" or "budget". total: charged so far.

    Of a budget: that so many per cent of what its user may spend in that month are spent; total: spent by then, run: whose charge
    told so.
    """

    id: str
    at: Instant
    user: str
    run: RunId
    kind: str
    ran: Span
    total: Credits
    percent: int = 0
    month: str = ""


class Metering(Protocol):
    def record(self, usage: Sequence[Usage]) -> None:
        """Raises Unavailable; recording the same id twice is recording it once."""
        ...
