"""A replay seen at chosen instants: what each GPU held, and what had been earned."""

from __future__ import annotations

from collections.abc import Sequence

from core.simulation.figures import Revenue, revenue
from core.simulation.submissions import Moment, Replayed
from ports.units import Instant, Mib


def busiest(replayed: Replayed) -> Moment | None:
    """The first moment at which most VRAM was booked."""
    return max(replayed.moments, key=lambda each: each.booked, default=None)


def booked_at(replayed: Replayed, at: Instant) -> dict[tuple[str, int], Mib]:
    """MiB booked of each GPU (node, index) once all that happened at that instant had happened. Idle ones are left out."""
    found: dict[tuple[str, int], Mib] = {}
    for each in replayed.outcomes:
        if each.booked_at is not None and each.ended_at is not None and each.booked_at <= at < each.ended_at:
            for slot in each.placement:
                found[slot.node, slot.gpu] = found.get((slot.node, slot.gpu), Mib(0)) + slot.mib
    return found


def earnings(replayed: Replayed, instants: Sequence[Instant]) -> list[Revenue]:
    """What had been earned by each instant, by the running times until then, as bills have it."""
    return [revenue(replayed.outcomes, each) for each in instants]
